//! The one table of config keys. The environment names and the help derive from it.

/// What every environment variable of the sidecar starts with. Such variables never reach a launch.
pub const ENV_PREFIX: &str = "SANDBOX_SIDECAR_";

/// The environment variable that names the config file; it is no key of that file.
pub const CONFIG_ENV: &str = "SANDBOX_SIDECAR_CONFIG";

/// How a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A string.
    Text,
    /// `true` or `false`.
    Bool,
    /// A whole number, not negative.
    Number,
    /// An array of TCP ports; in the environment one string, split at `,`.
    Ports,
    /// An array of strings; in the environment one string, split at this character.
    List(char),
}

impl Kind {
    /// What is expected, for people.
    pub const fn expected(self) -> &'static str {
        match self {
            Kind::Text => "a string",
            Kind::Bool => "true or false",
            Kind::Number => "a whole number that is not negative",
            Kind::Ports => "a list of port numbers, from 0 to 65535",
            Kind::List(_) => "a list of strings",
        }
    }
}

/// One key.
#[derive(Debug)]
pub struct Key {
    /// The name in the file; a dot stands for a table.
    pub name: &'static str,
    /// How its value is written.
    pub kind: Kind,
    /// Replaces the derived environment name.
    env: Option<&'static str>,
    /// What it does, its unit and its default.
    pub help: &'static str,
}

const fn key(name: &'static str, kind: Kind, help: &'static str) -> Key {
    Key { name, kind, env: None, help }
}

/// Every key.
pub const KEYS: &[Key] = &[
    key(
        "listen",
        Kind::List(','),
        "ws://IP:PORT, wss://IP:PORT, unix:///PATH or stdio:// to listen on; default ws://127.0.0.1:8790",
    ),
    key(
        "adminListen",
        Kind::Text,
        "IP:PORT for metrics and health, without a token; empty: none; default 127.0.0.1:9464, none on stdio:// alone",
    ),
    key("workspaceRoot", Kind::Text, "directory that launches work in; default: the current one"),
    key(
        "tokenFile",
        Kind::Text,
        "file of tokens, one per line: name:token or a bare token; sha256:HEX may stand for a token",
    ),
    key(
        "jwt.publicKeyFile",
        Kind::Text,
        "instead of tokenFile: PEM file with the Ed25519 or P-256 public key of who signs the tokens (EdDSA, ES256)",
    ),
    key(
        "jwt.sharedSecretFile",
        Kind::Text,
        "instead of tokenFile: file with the secret that tokens are signed with (HS256), at least 32 bytes",
    ),
    key("jwt.issuer", Kind::Text, "iss that a signed token must have; default: any"),
    key("jwt.audience", Kind::Text, "aud that a signed token must have; required with jwt.publicKeyFile"),
    key("jwt.clockSkewSeconds", Kind::Number, "by how much clocks may differ, for exp and nbf; default 30"),
    Key {
        name: "stateDir",
        kind: Kind::Text,
        env: Some("SANDBOX_SIDECAR_STATE"),
        help: "directory for the generated token; default $XDG_RUNTIME_DIR/sandbox-sidecar or /run/sandbox-sidecar",
    },
    key("insecureNoAuth", Kind::Bool, "ask for no token; loopback only"),
    key(
        "tls.certFile",
        Kind::Text,
        "PEM file with the certificate that wss:// listeners show, and its chain",
    ),
    key("tls.keyFile", Kind::Text, "PEM file with the private key of that certificate"),
    key("allowedOrigins", Kind::List(','), "Origin headers to let through; default none"),
    key("profile", Kind::Text, "profile of a launch that asks for none; default workspaceWriteNoNetwork"),
    key("ceiling", Kind::Text, "profile that no launch gets beyond; default workspaceWrite"),
    key("readRoots", Kind::List(':'), "more trees that launches may read and execute from"),
    key("writeRoots", Kind::List(':'), "more trees that launches may write to"),
    key("protectedPaths", Kind::List(':'), "paths that no launch may touch, beside the built-in ones"),
    key("umask", Kind::Text, "mode bits that new files do not get, octal such as 002; default: as started"),
    key("network.tcpConnect", Kind::Ports, "ports that workspaceWrite may connect to; default: any"),
    key(
        "network.tcpBind",
        Kind::Ports,
        "ports that workspaceWrite may bind, 0: one that the kernel picks; default: any",
    ),
    key("network.udp", Kind::Bool, "UDP, to any port; default false beside a list of ports, else true"),
    key("debug", Kind::Bool, "allow ptrace among the processes of one launch; default true"),
    key("carveOuts", Kind::Text, "read-only places in a writable root: declare (default) or reject"),
    key("tmp", Kind::Text, "temporary files of writing launches: shared (default) or private"),
    key("ptyIsolation", Kind::Text, "terminals that a launch may open: shared (default) or own"),
    key("onUnsupported", Kind::Text, "without Landlock: refuse (default) or degrade"),
    key("landlock.maxAbi", Kind::Number, "use no Landlock ABI above this one"),
    key("metrics.detail", Kind::Text, "full (default), or basic: no histogram per file operation"),
    key("audit.sink", Kind::Text, "stderr (default), file:PATH, unix:PATH of a stream socket, or none"),
    key(
        "audit.onFailure",
        Kind::Text,
        "where a record cannot be written: drop (default) it, or refuse the launch",
    ),
    key("audit.redact", Kind::List('\n'), "regular expressions; what they match in arguments is masked"),
    key("audit.reads", Kind::Bool, "record what only reads files too; default false"),
    key("audit.rotateBytes", Kind::Number, "size at which the file is rotated; default 100 MiB"),
    key("audit.keepFiles", Kind::Number, "rotated files that are kept; default 5"),
    key("logFormat", Kind::Text, "auto (default), text or json"),
    key("logFilter", Kind::Text, "what to log, as tracing's EnvFilter reads it; default info"),
    key(
        "background",
        Kind::Text,
        "what a command leaves in the background: keepUntilSessionEnd (default) or kill",
    ),
    key(
        "memoryWatch.percent",
        Kind::Number,
        "end the largest launch where this much of the container's memory is used; 0 is off; default 95",
    ),
    key("memoryWatch.intervalMs", Kind::Number, "between two looks at the container's memory; default 500"),
    key("limits.messageBytes", Kind::Number, "largest incoming message; default 64 MiB"),
    key("limits.requests", Kind::Number, "requests in flight per connection; default 1024"),
    key(
        "limits.requestBytes",
        Kind::Number,
        "bytes of the requests in flight per connection, and of the input that waits per session; default 128 MiB",
    ),
    key(
        "limits.responseBytes",
        Kind::Number,
        "bytes of responses per connection that wait to be sent, half of it for what is read from files; default 1 MiB",
    ),
    key("limits.connections", Kind::Number, "connections that were let in; default 64"),
    key(
        "limits.handshakes",
        Kind::Number,
        "connections per listener that were not let in yet, the oldest goes for a new one; default 64",
    ),
    key("limits.handshakeSeconds", Kind::Number, "from accepting a connection to letting it in; default 10"),
    key("limits.initializeSeconds", Kind::Number, "from letting a client in to its initialized; default 30"),
    key(
        "limits.authFailures",
        Kind::Number,
        "refused attempts per address and minute that are answered 401, logged and recorded; default 60",
    ),
    key("limits.authFailuresInAll", Kind::Number, "the same of all addresses together; default 600"),
    key("limits.sessions", Kind::Number, "sessions, detached ones among them; default 128"),
    key(
        "limits.detachedTtlSeconds",
        Kind::Number,
        "how long a session waits for its client to come back; 0: it ends with its connection; default 60",
    ),
    key("limits.processes", Kind::Number, "processes per session; default 256"),
    key("limits.handles", Kind::Number, "open file handles per connection; default 128"),
    key("limits.watches", Kind::Number, "watches per connection; default 64"),
    key("limits.watchDirectories", Kind::Number, "directories below one watch; default 10000"),
    key(
        "limits.watchEvents",
        Kind::Number,
        "changed paths that one fs/changed tells, beyond them it is an overflow; default 1000",
    ),
    key("limits.retainedBytes", Kind::Number, "output kept per process; default 1 MiB"),
    key("limits.retainedChunks", Kind::Number, "chunks of output kept per process; default 50000"),
    key("limits.exitedTtlSeconds", Kind::Number, "how long an exited process is kept; default 60"),
    key("limits.drainSeconds", Kind::Number, "silence after an exit until output counts as over; default 5"),
    key("limits.terminateGraceSeconds", Kind::Number, "from SIGTERM to SIGKILL; default 2"),
    key(
        "limits.pingSeconds",
        Kind::Number,
        "between pings; two unanswered ones end a connection; default 30",
    ),
];

/// The table of the config file that holds the operator's own profiles, `[profiles.NAME]`. It has no flags and no
/// variables.
pub const PROFILES: &str = "profiles";

/// The keys of one `[profiles.NAME]`.
pub static PROFILE_KEYS: &[Key] = &[
    key(
        "extends",
        Kind::Text,
        "readOnly, workspaceWriteNoNetwork or workspaceWrite, to start from; required",
    ),
    key("readRoots", Kind::List(':'), "more trees to read and execute from; each must exist"),
    key("writeRoots", Kind::List(':'), "more trees to write to; each must exist"),
    key("network", Kind::Text, "none, open or ports; default: as extends has it"),
    key("tcpConnect", Kind::Ports, "with network = ports: the ports to connect to; default: any"),
    key("tcpBind", Kind::Ports, "with network = ports: the ports to bind; default: any"),
    key("udp", Kind::Bool, "with network = ports: UDP, to any port; default false"),
    key("tmp", Kind::Text, "shared or private; default: as extends has it"),
    key("debug", Kind::Bool, "false: no ptrace; default: the key debug"),
];

impl Key {
    /// The environment variable: `landlock.maxAbi` is SANDBOX_SIDECAR_LANDLOCK_MAX_ABI.
    pub fn env_name(&self) -> String {
        if let Some(name) = self.env {
            return name.to_owned();
        }
        let mut out = String::from(ENV_PREFIX);
        for c in self.name.chars() {
            match c {
                '.' => out.push('_'),
                c if c.is_ascii_uppercase() => out.extend(['_', c]),
                c => out.push(c.to_ascii_uppercase()),
            }
        }
        out
    }

    /// The key of that name.
    pub fn find(name: &str) -> Option<&'static Key> {
        KEYS.iter().find(|key| key.name == name)
    }
}

/// Whether Kubernetes sets this variable in every pod beside a Service named `sandbox-sidecar`.
pub fn is_service_link(env_name: &str) -> bool {
    env_name.strip_prefix(ENV_PREFIX).is_some_and(|rest| {
        rest.starts_with("SERVICE_HOST")
            || rest.starts_with("SERVICE_PORT")
            || rest == "PORT"
            || rest.starts_with("PORT_")
    })
}

/// The candidate that `name` may have been meant for.
pub fn nearest(name: &str, candidates: impl Iterator<Item = String>) -> String {
    let distance =
        |c: &String| strsim::damerau_levenshtein(&c.to_ascii_lowercase(), &name.to_ascii_lowercase());
    candidates.min_by_key(distance).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_names_derive_from_the_table() {
        let name = |key: &str| Key::find(key).expect("a key").env_name();
        assert_eq!(name("workspaceRoot"), "SANDBOX_SIDECAR_WORKSPACE_ROOT");
        assert_eq!(name("landlock.maxAbi"), "SANDBOX_SIDECAR_LANDLOCK_MAX_ABI");
        assert_eq!(name("limits.exitedTtlSeconds"), "SANDBOX_SIDECAR_LIMITS_EXITED_TTL_SECONDS");
        assert_eq!(name("stateDir"), "SANDBOX_SIDECAR_STATE");
    }

    #[test]
    fn no_key_hides_behind_a_service_link() {
        assert!(is_service_link("SANDBOX_SIDECAR_PORT_8790_TCP_ADDR"));
        assert!(is_service_link("SANDBOX_SIDECAR_SERVICE_HOST"));
        for key in KEYS {
            assert!(!is_service_link(&key.env_name()), "{}", key.name);
        }
    }
}
