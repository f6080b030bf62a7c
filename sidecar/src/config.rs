//! The operator's choices: file, environment and flags, merged and validated into one [`Config`].
//!
//! [`keys`] is the one table of keys; [`source`] merges the three sources over it and remembers where each value came
//! from; this module turns the merged values into types. It opens nothing and listens nowhere; it looks at the file
//! system only to resolve the places that the config names.

mod audit;
mod effective;
pub mod error;
pub mod keys;
pub mod limits;
pub mod listen;
mod network;
mod places;
mod profiles;
mod signed;
pub mod source;
mod tls;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sidecar_sandbox::{CarveOuts, Network, OnUnsupported, Options, Profile, PtyPolicy, Roots, TmpPolicy};

pub(crate) use audit::rotated;
pub use audit::{AuditConfig, AuditSink, OnFailure};
pub use effective::Effective;
pub use error::ConfigError;
pub use limits::Limits;
pub use listen::ListenUrl;
pub use signed::{SignedTokens, SigningKey};
pub use source::{Inputs, Settings, Source};
pub use tls::TlsFiles;

/// The port of Prometheus exporters of OpenTelemetry; no other common service has it.
const DEFAULT_ADMIN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9464);

/// The validated config.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where to listen; empty when embedded.
    pub listen: Vec<ListenUrl>,
    /// Where metrics and health are served without a token; `None` when embedded, and by default on stdio alone.
    pub admin_listen: Option<SocketAddr>,
    /// Who may connect to a TCP listener.
    pub auth: AuthMode,
    /// What listeners that speak TLS show.
    pub tls: Option<TlsFiles>,
    /// `Origin` headers that are let through; every other one is refused.
    pub allowed_origins: Vec<String>,
    /// What the sandbox is started with.
    pub sandbox: Options,
    /// Mode bits that files of the server and of launches do not get; `None` leaves what the process was started with.
    pub umask: Option<u32>,
    /// What becomes of what a command leaves in the background.
    pub background: Background,
    /// The guard against the container's memory limit.
    pub memory_watch: MemoryWatch,
    /// The limits.
    pub limits: Limits,
    /// How much the metrics tell.
    pub metrics: MetricsDetail,
    /// The audit trail.
    pub audit: AuditConfig,
    /// How to log.
    pub log: Log,
    /// The merged values and where each came from; for people.
    pub settings: Settings,
    /// The environment that launches may inherit from; the sidecar's own variables are not in it.
    pub launch_env: BTreeMap<String, String>,
}

/// Who may connect to a TCP listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthMode {
    /// Whoever shows a token of this file. The file is the operator's.
    TokenFile(PathBuf),
    /// Whoever shows the token that the sidecar writes to this file at start.
    Generated(PathBuf),
    /// Whoever shows a token that is signed with this key.
    Signed(SignedTokens),
    /// Anybody who can reach the listener, which is on loopback.
    Off,
}

/// How much the metrics tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricsDetail {
    /// Everything.
    Full,
    /// No histogram per file operation.
    Basic,
}

/// What becomes of the descendants that outlive their command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Background {
    /// They live on until the session ends: agents start servers with `&`.
    KeepUntilSessionEnd,
    /// They die with it.
    Kill,
}

/// When the largest launch is ended, before the kernel ends something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryWatch {
    /// How much of the limit may be used; 0 turns the watch off.
    pub percent: u8,
    /// Between two looks.
    pub interval: Duration,
    /// Where the container's own cgroup is mounted.
    pub cgroup: PathBuf,
}

impl MemoryWatch {
    fn from_settings(settings: &Settings) -> Result<MemoryWatch, ConfigError> {
        Ok(MemoryWatch {
            percent: settings.number("memoryWatch.percent", 0, 100)?.unwrap_or(95),
            interval: Duration::from_millis(
                settings.number("memoryWatch.intervalMs", 10, 60_000)?.unwrap_or(500),
            ),
            cgroup: PathBuf::from("/sys/fs/cgroup"),
        })
    }
}

/// How to log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// Text or JSON.
    pub format: LogFormat,
    /// A filter as `tracing_subscriber::EnvFilter` reads it.
    pub filter: String,
}

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    Auto,
    /// For people.
    Text,
    /// For collectors.
    Json,
}

impl Config {
    /// Merges and validates.
    ///
    /// # Errors
    /// [`ConfigError`] names the key, its value, and what was expected.
    pub fn load(inputs: &Inputs) -> Result<Config, ConfigError> {
        Config::from_settings(source::merge(inputs)?, inputs)
    }

    /// The defaults for a sidecar inside another process: no listeners, no auth, no audit trail, no files of its own.
    ///
    /// # Errors
    /// The workspace root does not exist or is no directory.
    pub fn embedded(workspace_root: PathBuf) -> Result<Config, ConfigError> {
        let inputs = Inputs {
            env: std::env::vars_os()
                .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)))
                .filter(|(name, _)| !name.starts_with(keys::ENV_PREFIX))
                .collect(),
            flags: vec![("insecureNoAuth", source::Raw::Bool(true))],
            cwd: workspace_root,
            ..Inputs::default()
        };
        let mut config = Config::load(&inputs)?;
        config.listen = Vec::new();
        config.admin_listen = None;
        // Its stderr is that of the process around it.
        config.audit.sink = AuditSink::None;
        Ok(config)
    }

    fn from_settings(settings: Settings, inputs: &Inputs) -> Result<Config, ConfigError> {
        let places = places::Places::resolve(&settings, inputs)?;
        let listen = listen_urls(&settings)?;
        let admin_listen = admin_listen(&settings, &listen)?;
        // Where nobody connects over TCP nobody shows a token, and none has to be kept anywhere.
        let signed = SignedTokens::from_settings(&settings, &inputs.cwd)?;
        let tokens = listen.iter().any(|url| url.tcp().is_some()) || settings.text("tokenFile").is_some();
        let auth =
            if tokens || signed.is_some() { places.auth(&settings, inputs, signed)? } else { AuthMode::Off };
        let sockets = places.sockets(&listen)?;
        if auth == AuthMode::Off
            && let Some(open) = listen.iter().find(|url| !url.is_loopback())
        {
            return Err(ConfigError::Refused {
                key: "insecureNoAuth",
                reason: format!(
                    "{open} is not a loopback address, and without a token anybody who reaches it runs commands here; \
                     listen on 127.0.0.1 or [::1], or set tokenFile or jwt.publicKeyFile"
                ),
            });
        }
        let audit = AuditConfig::from_settings(&settings, &inputs.cwd)?;
        places.audit(&audit)?;
        let tls = TlsFiles::from_settings(&settings, &inputs.cwd, &listen)?;
        let mut protected = places.protected(&settings, inputs, &auth, &audit, tls.as_ref())?;
        protected.extend(sockets);
        let mut sandbox = Options {
            roots: Roots { protected, ..places.roots },
            profiles: places.profiles,
            default: Profile::WorkspaceWriteNoNetwork,
            ceiling: Profile::WorkspaceWrite,
            network: Network::Open,
            max_abi: settings.number::<u32>("landlock.maxAbi", 0, u64::from(u32::MAX))?,
            debug: settings.boolean("debug").unwrap_or(true),
            on_unsupported: settings.choice(
                "onUnsupported",
                &[("refuse", OnUnsupported::Refuse), ("degrade", OnUnsupported::Degrade)],
            )?,
            carve_outs: settings
                .choice("carveOuts", &[("declare", CarveOuts::Declare), ("reject", CarveOuts::Reject)])?,
            tmp: settings.choice("tmp", &[("shared", TmpPolicy::Shared), ("private", TmpPolicy::Private)])?,
            ptys: settings
                .choice("ptyIsolation", &[("shared", PtyPolicy::Shared), ("own", PtyPolicy::Own)])?,
        };
        sandbox.default = profile(&settings, "profile", &sandbox)?.unwrap_or(sandbox.default);
        sandbox.ceiling = profile(&settings, "ceiling", &sandbox)?.unwrap_or(sandbox.ceiling);
        sandbox.network = network::from_settings(&settings, &sandbox.ceiling)?;
        let log = Log {
            format: settings.choice(
                "logFormat",
                &[("auto", LogFormat::Auto), ("text", LogFormat::Text), ("json", LogFormat::Json)],
            )?,
            filter: settings.text("logFilter").unwrap_or("info").to_owned(),
        };
        Ok(Config {
            listen,
            admin_listen,
            auth,
            tls,
            allowed_origins: settings.list("allowedOrigins").to_vec(),
            sandbox,
            umask: umask(&settings)?,
            background: settings.choice(
                "background",
                &[("keepUntilSessionEnd", Background::KeepUntilSessionEnd), ("kill", Background::Kill)],
            )?,
            memory_watch: MemoryWatch::from_settings(&settings)?,
            limits: Limits::from_settings(&settings)?,
            metrics: settings.choice(
                "metrics.detail",
                &[("full", MetricsDetail::Full), ("basic", MetricsDetail::Basic)],
            )?,
            audit,
            log,
            launch_env: launch_env(&inputs.env),
            settings,
        })
    }

    /// The tree that launches write to and that a path lies in, if there is one.
    pub fn write_root_of(&self, path: &Path) -> Option<PathBuf> {
        self.sandbox.roots.write_root_of(&self.sandbox.profiles, path)
    }

    /// The workspace root, resolved.
    pub fn workspace_root(&self) -> &Path {
        &self.sandbox.roots.workspace
    }
}

/// The profile that a key names, of those that there are.
fn profile(
    settings: &Settings,
    key: &'static str,
    sandbox: &Options,
) -> Result<Option<Profile>, ConfigError> {
    let Some(name) = settings.text(key) else { return Ok(None) };
    sandbox.profile(name).map(Some).map_err(|e| settings.bad(key, name, e.to_string()))
}

fn listen_urls(settings: &Settings) -> Result<Vec<ListenUrl>, ConfigError> {
    let parse =
        |url: &String| url.parse::<ListenUrl>().map_err(|e| settings.bad("listen", url, e.expected()));
    match settings.list("listen") {
        [] => Ok(vec![ListenUrl::DEFAULT]),
        urls => {
            let parsed = urls.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
            match urls.iter().enumerate().find(|(i, _)| parsed[..*i].contains(&parsed[*i])) {
                // Port 0 is another port each time.
                Some((i, url)) if parsed[i].tcp().is_none_or(|address| address.port() != 0) => {
                    Err(settings.bad("listen", url, "each URL once"))
                }
                _ => Ok(parsed),
            }
        }
    }
}

/// A server on stdio alone is its client's own, one of several perhaps: the default port would go to the first of them.
fn admin_listen(settings: &Settings, listen: &[ListenUrl]) -> Result<Option<SocketAddr>, ConfigError> {
    match settings.text("adminListen") {
        None if listen == [ListenUrl::Stdio] => Ok(None),
        None => Ok(Some(DEFAULT_ADMIN)),
        Some("") => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|_| {
            settings.bad("adminListen", text, "IP:PORT, such as 127.0.0.1:9464; or nothing at all")
        }),
    }
}

/// Octal, as every tool writes it. The owner keeps all rights: a launch must be able to use what it has made.
fn umask(settings: &Settings) -> Result<Option<u32>, ConfigError> {
    let Some(text) = settings.text("umask") else { return Ok(None) };
    let digits = !text.is_empty() && text.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
    match u32::from_str_radix(text, 8) {
        Ok(mask) if digits && mask <= 0o77 => Ok(Some(mask)),
        _ => Err(settings.bad("umask", text, "octal digits from 000 to 077, such as 002")),
    }
}

fn launch_env(env: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    env.iter()
        .filter(|(name, _)| !name.starts_with(keys::ENV_PREFIX))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

#[cfg(test)]
mod tests;
