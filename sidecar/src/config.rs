//! The operator's choices: file, environment and flags, merged and validated into one [`Config`].
//!
//! [`keys`] is the one table of keys; [`source`] merges the three sources over it and remembers where each value came
//! from; this module turns the merged values into types. It opens nothing and listens nowhere; it looks at the file
//! system only to resolve the places that the config names.

pub mod error;
pub mod keys;
pub mod limits;
pub mod listen;
mod places;
pub mod source;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sidecar_sandbox::{CarveOuts, OnUnsupported, Options, Profile, PtyPolicy, Roots, TmpPolicy};

pub use error::ConfigError;
pub use limits::Limits;
pub use listen::ListenUrl;
pub use source::{Inputs, Settings, Source};

/// The validated config.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where to listen; empty when embedded.
    pub listen: Vec<ListenUrl>,
    /// Who may connect to a TCP listener.
    pub auth: AuthMode,
    /// `Origin` headers that are let through; every other one is refused.
    pub allowed_origins: Vec<String>,
    /// What the sandbox is started with.
    pub sandbox: Options,
    /// The limits.
    pub limits: Limits,
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
    /// Anybody who can reach the listener, which is on loopback.
    Off,
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

    /// The defaults for a sidecar inside another process: no listeners, no auth, no files of its own.
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
        Ok(config)
    }

    fn from_settings(settings: Settings, inputs: &Inputs) -> Result<Config, ConfigError> {
        let places = places::Places::resolve(&settings, inputs)?;
        let listen = listen_urls(&settings)?;
        let auth = places.auth(&settings, inputs)?;
        if auth == AuthMode::Off
            && let Some(open) = listen.iter().find(|url| !url.is_loopback())
        {
            return Err(ConfigError::Refused {
                key: "insecureNoAuth",
                reason: format!(
                    "{open} is not a loopback address, and without a token anybody who reaches it runs commands here; \
                     listen on 127.0.0.1 or [::1], or set tokenFile"
                ),
            });
        }
        let sandbox = Options {
            roots: Roots {
                workspace: places.workspace.clone(),
                home: home(&inputs.env),
                tmp: PathBuf::from(places::TMP),
                read_roots: places.read_roots.clone(),
                write_roots: places.write_roots.clone(),
                protected: places.protected(&settings, inputs, &auth)?,
            },
            default: settings.parse("profile", Profile::WorkspaceWriteNoNetwork)?,
            ceiling: settings.parse("ceiling", Profile::WorkspaceWrite)?,
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
        let log = Log {
            format: settings.choice(
                "logFormat",
                &[("auto", LogFormat::Auto), ("text", LogFormat::Text), ("json", LogFormat::Json)],
            )?,
            filter: settings.text("logFilter").unwrap_or("info").to_owned(),
        };
        Ok(Config {
            listen,
            auth,
            allowed_origins: settings.list("allowedOrigins").to_vec(),
            sandbox,
            limits: Limits::from_settings(&settings)?,
            log,
            launch_env: launch_env(&inputs.env),
            settings,
        })
    }

    /// The workspace root, resolved.
    pub fn workspace_root(&self) -> &Path {
        &self.sandbox.roots.workspace
    }
}

fn listen_urls(settings: &Settings) -> Result<Vec<ListenUrl>, ConfigError> {
    let parse =
        |url: &String| url.parse().map_err(|e: listen::BadUrl| settings.bad("listen", url, e.expected()));
    match settings.list("listen") {
        [] => Ok(vec![ListenUrl::DEFAULT]),
        urls => urls.iter().map(parse).collect(),
    }
}

/// $HOME where it says something: a uid without a passwd entry has `/`.
fn home(env: &BTreeMap<String, String>) -> Option<PathBuf> {
    env.get("HOME").map(PathBuf::from).filter(|home| home.is_absolute() && home != Path::new("/"))
}

fn launch_env(env: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    env.iter()
        .filter(|(name, _)| !name.starts_with(keys::ENV_PREFIX))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

#[cfg(test)]
mod tests;
