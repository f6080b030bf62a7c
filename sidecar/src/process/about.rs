//! What a process is, as lists tell it. Fixed at its start.

use std::sync::OnceLock;
use std::time::SystemTime;

use sidecar_protocol::process::StartParams;
use sidecar_sandbox::Tree;
use tokio::time::Instant;

/// What is kept of an argv, bytes: a list of processes must fit one message.
const ARGV_BYTES: usize = 4096;

#[derive(Debug)]
pub(super) struct About {
    pub(super) argv: Vec<String>,
    pub(super) tty: bool,
    /// Lists are in the order of the starts.
    pub(super) started: Instant,
    pub(super) started_at: SystemTime,
    /// The command's pid and its tree, once there are any.
    pub(super) running: OnceLock<(i32, Tree)>,
}

impl About {
    pub(super) fn new(params: &StartParams) -> About {
        About {
            argv: shortened(&params.argv),
            tty: params.tty,
            started: Instant::now(),
            started_at: SystemTime::now(),
            running: OnceLock::new(),
        }
    }

    pub(super) fn started_at_ms(&self) -> u64 {
        let since = self.started_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }
}

/// The beginning of an argv; an ellipsis stands for the rest.
fn shortened(argv: &[String]) -> Vec<String> {
    let mut left = ARGV_BYTES;
    let mut kept = Vec::new();
    for arg in argv {
        // An empty argument takes room too.
        if arg.len() >= left {
            kept.push(format!("{}…", &arg[..arg.floor_char_boundary(left)]));
            break;
        }
        left -= arg.len() + 1;
        kept.push(arg.clone());
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_argv_is_cut() {
        let argv = |args: &[&str]| shortened(&args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>());
        assert_eq!(argv(&["a", "", "☕"]), ["a", "", "☕"]);
        let long = "☕".repeat(ARGV_BYTES);
        let cut = argv(&["sh", &long, "never"]);
        assert_eq!(cut.len(), 2);
        assert!(cut[1].len() <= ARGV_BYTES + "…".len() && cut[1].ends_with("☕…"));
        assert!(argv(&[""; 10_000]).len() <= ARGV_BYTES + 1);
    }
}
