//! Launches through a server, and what a process costs as the kernel counts it.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::subject::uri;
use crate::wire::Client;

/// What a launch that only starts and ends starts.
pub(crate) const TRUE: &str = "/bin/true";

/// A command to start.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    pub(crate) argv: &'a [&'a str],
    pub(crate) cwd: &'a Path,
    pub(crate) tty: bool,
    /// The request's `sandbox`; null is our server's default profile, and none at all with the stock one.
    pub(crate) sandbox: &'a Value,
}

impl<'a> Launch<'a> {
    /// With pipes, as the server does by default.
    pub(crate) fn plain(argv: &'a [&'a str], cwd: &'a Path) -> Self {
        Self { argv, cwd, tty: false, sandbox: &Value::Null }
    }

    /// Asks for it; gives the id of the process, and of the request.
    pub(crate) fn request(&self, client: &mut Client) -> anyhow::Result<(String, u64)> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let process = format!("b{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let params = json!({
            "processId": process,
            "argv": self.argv,
            "cwd": uri(self.cwd),
            "env": {"PATH": "/usr/bin:/bin"},
            "tty": self.tty,
            "pipeStdin": false,
            "arg0": null,
            "sandbox": self.sandbox,
        });
        let request = client.request("process/start", &params)?;
        Ok((process, request))
    }

    /// Starts it; gives the id of the process.
    pub(crate) fn start(&self, client: &mut Client) -> anyhow::Result<String> {
        let (process, request) = self.request(client)?;
        client.response(request).with_context(|| format!("{:?}", self.argv))?;
        Ok(process)
    }

    /// From the request until the exit has come.
    pub(crate) fn to_exit(&self, client: &mut Client) -> anyhow::Result<Duration> {
        let begin = Instant::now();
        let process = self.start(client)?;
        client.await_notification("process/exited", &process)?;
        let took = begin.elapsed();
        client.await_notification("process/closed", &process)?;
        Ok(took)
    }
}

/// Processor time that a process has taken, all its threads, ended ones too.
pub(crate) fn cpu(pid: u32) -> anyhow::Result<Duration> {
    let clock = clock_getcpuclockid(Pid::from_raw(pid.cast_signed()))?;
    Ok(time(clock_gettime(clock)?))
}

/// Processor time of this thread.
pub(crate) fn own_cpu() -> anyhow::Result<Duration> {
    Ok(time(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?))
}

fn time(spec: TimeSpec) -> Duration {
    spec.into()
}
