//! The effective config for people: every key, what it comes to, where that came from.

use sidecar_sandbox::Network;

use super::keys::{KEYS, PROFILES};
use super::{AuthMode, Background, Config, LogFormat, Source};

/// One key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    /// Its name in the file.
    pub key: String,
    /// What it comes to, a secret masked; `None` where it is not set and has no default.
    pub value: Option<String>,
    /// Where that came from.
    pub source: Source,
}

/// Stands for a secret.
const MASK: &str = "********";

impl Config {
    /// Every key, in the order of the table, and what the file's profiles hold.
    pub fn effective(&self) -> impl Iterator<Item = Effective> {
        let keys = KEYS.iter().map(|key| match self.settings.get(key.name) {
            Some((value, source)) => {
                let value = if is_secret(key.name) { MASK.to_owned() } else { value.to_string() };
                Effective { key: key.name.to_owned(), value: Some(value), source: source.clone() }
            }
            None => Effective {
                key: key.name.to_owned(),
                value: self.default_of(key.name),
                source: Source::Default,
            },
        });
        keys.chain(self.settings.profiles().iter().flat_map(move |(name, values)| {
            values.iter().map(move |(key, value)| Effective {
                key: format!("{PROFILES}.{name}.{key}"),
                value: Some(value.to_string()),
                source: self.settings.file().map_or(Source::Default, Source::File),
            })
        }))
    }

    /// What a key comes to that nobody has set.
    fn default_of(&self, key: &str) -> Option<String> {
        let limits = &self.limits;
        let seconds = |duration: std::time::Duration| duration.as_secs().to_string();
        let value = match key {
            "listen" => self.listen.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
            "workspaceRoot" => self.workspace_root().display().to_string(),
            "stateDir" => match &self.auth {
                AuthMode::Generated(token) => token.parent()?.display().to_string(),
                AuthMode::TokenFile(_) | AuthMode::Signed(_) | AuthMode::Off => return None,
            },
            "jwt.clockSkewSeconds" => match &self.auth {
                AuthMode::Signed(signed) => seconds(signed.skew),
                AuthMode::TokenFile(_) | AuthMode::Generated(_) | AuthMode::Off => return None,
            },
            "insecureNoAuth" => String::from("false"),
            "profile" => self.sandbox.default.to_string(),
            "ceiling" => self.sandbox.ceiling.to_string(),
            "network.udp" => (self.sandbox.network == Network::Open).to_string(),
            "debug" => self.sandbox.debug.to_string(),
            "carveOuts" => String::from("declare"),
            "onUnsupported" => String::from("refuse"),
            "tmp" | "ptyIsolation" => String::from("shared"),
            "background" => match self.background {
                Background::KeepUntilSessionEnd => String::from("keepUntilSessionEnd"),
                Background::Kill => String::from("kill"),
            },
            "memoryWatch.percent" => self.memory_watch.percent.to_string(),
            "memoryWatch.intervalMs" => self.memory_watch.interval.as_millis().to_string(),
            "adminListen" => self.admin_listen?.to_string(),
            "metrics.detail" => String::from("full"),
            "audit.sink" => String::from("stderr"),
            "audit.onFailure" => String::from("drop"),
            "audit.reads" => self.audit.reads.to_string(),
            "audit.rotateBytes" => self.audit.rotate_bytes.to_string(),
            "audit.keepFiles" => self.audit.keep_files.to_string(),
            "logFormat" => match self.log.format {
                LogFormat::Auto => String::from("auto"),
                LogFormat::Text => String::from("text"),
                LogFormat::Json => String::from("json"),
            },
            "logFilter" => self.log.filter.clone(),
            "limits.messageBytes" => limits.message_bytes.to_string(),
            "limits.requests" => limits.requests.to_string(),
            "limits.requestBytes" => limits.request_bytes.to_string(),
            "limits.responseBytes" => limits.response_bytes.to_string(),
            "limits.connections" => limits.connections.to_string(),
            "limits.handshakes" => limits.handshakes.to_string(),
            "limits.handshakeSeconds" => seconds(limits.handshake),
            "limits.initializeSeconds" => seconds(limits.initialize),
            "limits.authFailures" => limits.auth_failures.to_string(),
            "limits.authFailuresInAll" => limits.auth_failures_in_all.to_string(),
            "limits.processes" => limits.processes.to_string(),
            "limits.handles" => limits.handles.to_string(),
            "limits.watches" => limits.watches.to_string(),
            "limits.watchDirectories" => limits.watch_directories.to_string(),
            "limits.watchEvents" => limits.watch_events.to_string(),
            "limits.retainedBytes" => limits.retained_bytes.to_string(),
            "limits.sessions" => limits.sessions.to_string(),
            "limits.detachedTtlSeconds" => limits.detached_ttl.as_secs().to_string(),
            "limits.retainedChunks" => limits.retained_chunks.to_string(),
            "limits.exitedTtlSeconds" => seconds(limits.exited_ttl),
            "limits.drainSeconds" => seconds(limits.drain),
            "limits.terminateGraceSeconds" => seconds(limits.terminate_grace),
            "limits.pingSeconds" => seconds(limits.ping),
            _ => return None,
        };
        Some(value)
    }
}

/// Whether the value itself is a secret. A file of tokens, by its name, is none.
fn is_secret(key: &str) -> bool {
    let lower = key.to_ascii_lowercase();
    let names_one = ["token", "secret", "password", "credential"].iter().any(|word| lower.contains(word));
    names_one && !lower.ends_with("file") && !lower.ends_with("dir")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::source::{Inputs, Raw};

    #[test]
    fn every_key_with_its_source() {
        let dir = tempfile::tempdir().expect("a directory");
        let inputs = Inputs {
            env: [("SANDBOX_SIDECAR_LIMITS_PROCESSES".to_owned(), "7".to_owned())].into(),
            flags: vec![("listen", Raw::List(vec!["stdio://".into()]))],
            cwd: dir.path().to_owned(),
            ..Inputs::default()
        };
        let config = Config::load(&inputs).expect("valid");
        let all: Vec<_> = config.effective().collect();
        assert_eq!(all.len(), KEYS.len());
        let find = |key: &str| {
            let entry = all.iter().find(|entry| entry.key == key).expect(key);
            (entry.value.as_deref(), entry.source.to_string())
        };
        assert_eq!(find("listen"), (Some("stdio://"), "the command line".into()));
        assert_eq!(find("limits.processes"), (Some("7"), "SANDBOX_SIDECAR_LIMITS_PROCESSES".into()));
        assert_eq!(find("limits.requests"), (Some("1024"), "the default".into()));
        assert_eq!(find("tokenFile"), (None, "the default".into()));
    }

    #[test]
    fn what_is_masked() {
        for key in ["token", "otel.secret", "adminPassword"] {
            assert!(is_secret(key), "{key}");
        }
        assert!(KEYS.iter().all(|key| !is_secret(key.name)), "the config holds names of files, no secrets");
    }
}
