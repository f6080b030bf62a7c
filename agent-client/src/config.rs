//! The client's settings: a pure function of layers (flags, environment, file) and the current directory.
//!
//! [`Config::resolve`] is that function; [`Config::load`] only fetches its inputs.

mod layer;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use layer::{Layer, Lookup, Origin, Search};

use crate::error::Error;
use crate::transport::{Pod, SidecarUrl};

/// How long a connection, and then the handshake on it, may take by default.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// Validated settings.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where the sidecar listens; without it and without `kube` one is embedded in this process.
    pub sidecar_url: Option<SidecarUrl>,
    /// The pod whose sidecar is reached by `kubectl exec`; beats a URL of a weaker layer.
    pub kube: Option<Pod>,
    /// The file that holds the sidecar's token; without it none is sent.
    pub token_file: Option<PathBuf>,
    /// The directory here that the workspace root stands for. Absolute; it need not exist for a remote sidecar.
    pub local_root: PathBuf,
    /// Its counterpart on the sidecar's side; `None` takes what the server reports.
    pub workspace_root: Option<PathBuf>,
    /// How this client calls itself in the server's logs.
    pub client_name: String,
    /// Limit for TCP and the WebSocket upgrade together.
    pub connect_timeout: Duration,
    /// Limit for the answer to `initialize`.
    pub initialize_timeout: Duration,
    /// Where metrics are served; `None` serves none.
    pub metrics_listen: Option<SocketAddr>,
    /// The file that metrics are left in at the end; `None` leaves none.
    pub metrics_file: Option<PathBuf>,
    /// Variables that every command gets. Nothing else of the local environment is sent.
    pub env: BTreeMap<String, String>,
}

impl Config {
    /// Which sidecar elsewhere it names, for people; `None` where one is embedded in this process.
    pub fn elsewhere(&self) -> Option<String> {
        let url = || self.sidecar_url.as_ref().map(ToString::to_string);
        self.kube.as_ref().map(ToString::to_string).or_else(url)
    }

    /// Merges layers, the strongest first. `cwd` is the default local root, and what relative paths of flags and
    /// variables start from; those of a file start from the file's directory.
    ///
    /// # Errors
    /// [`Error::Setting`] names the flag, the variable or the key and its file.
    pub fn resolve(layers: &[Layer], cwd: &Path) -> Result<Self, Error> {
        let pick = Pick { layers, cwd };
        let (sidecar_url, kube) = pick.place()?;
        let workspace_root = match pick.first("workspace_root", |l| l.workspace_root.as_ref()) {
            Some((root, setting)) if !root.is_absolute() => {
                let why =
                    format!("{} must be absolute: it is a directory on the sidecar's side", root.display());
                return Err(Error::Setting { setting, why });
            }
            picked => picked.map(|(root, _)| root.clone()),
        };
        Ok(Self {
            sidecar_url,
            kube,
            token_file: pick.path(|l| l.token_file.as_ref()),
            local_root: pick.path(|l| l.local_root.as_ref()).unwrap_or_else(|| cwd.to_owned()),
            workspace_root,
            client_name: pick
                .first("client_name", |l| l.client_name.as_ref())
                .map_or_else(|| "agent-client".to_owned(), |(name, _)| name.clone()),
            connect_timeout: pick.duration("connect_timeout", |l| l.connect_timeout.as_ref())?,
            initialize_timeout: pick.duration("initialize_timeout", |l| l.initialize_timeout.as_ref())?,
            metrics_listen: pick.address("metrics_listen", |l| l.metrics_listen.as_ref())?,
            metrics_file: pick.path(|l| l.metrics_file.as_ref()),
            env: layers.iter().rev().flat_map(|l| l.env.clone()).collect(),
        })
    }

    /// Resolves `flags` over this process's environment and the config file that the search finds.
    ///
    /// # Errors
    /// As [`Config::resolve`], and [`Error::ConfigRead`], [`Error::ConfigParse`] about the file.
    pub fn load(config_flag: Option<&Path>, flags: Layer) -> Result<Self, Error> {
        Self::resolve(&Self::layers(config_flag, flags)?, &current_dir()?)
    }

    /// What [`Config::load`] resolves.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn layers(config_flag: Option<&Path>, flags: Layer) -> Result<Vec<Layer>, Error> {
        let env = |name: &str| std::env::var_os(name);
        let mut layers = vec![flags];
        layers.extend(Layer::from_env(&env)?);
        layers.extend(Search::new(config_flag, &env, &current_dir()?).read()?);
        Ok(layers)
    }
}

fn current_dir() -> Result<PathBuf, Error> {
    std::env::current_dir().map_err(|e| Error::Setting {
        setting: "current directory".to_owned(),
        why: format!("it cannot be told: {e}; it may have been removed"),
    })
}

/// Looks settings up, layer by layer.
struct Pick<'a> {
    layers: &'a [Layer],
    cwd: &'a Path,
}

impl<'a> Pick<'a> {
    /// The strongest value, and how its user calls the setting.
    fn first<T>(&self, key: &str, get: impl Fn(&'a Layer) -> Option<&'a T>) -> Option<(&'a T, String)> {
        self.layers.iter().find_map(|l| Some((get(l)?, l.origin.setting(key))))
    }

    /// A URL or a pod: what the strongest layer that names either says.
    fn place(&self) -> Result<(Option<SidecarUrl>, Option<Pod>), Error> {
        let named = self.layers.iter().find(|l| l.sidecar_url.is_some() || l.kube.is_some());
        let Some(layer) = named else { return Ok((None, None)) };
        let failed = |key: &str, why| Error::Setting { setting: layer.origin.setting(key), why };
        match (&layer.sidecar_url, &layer.kube) {
            (Some(_), Some(_)) => {
                Err(failed("kube", "sidecar_url is set too; only one of them can be".to_owned()))
            }
            (Some(url), None) => {
                Ok((Some(SidecarUrl::parse(url).map_err(|why| failed("sidecar_url", why))?), None))
            }
            (None, Some(pod)) => {
                let first = |get: fn(&Layer) -> Option<&PathBuf>| self.layers.iter().find_map(get);
                let kubectl =
                    first(|l| l.kubectl.as_ref()).map_or_else(|| "kubectl".into(), |path| path.into());
                let text =
                    |key, get: fn(&Layer) -> Option<&String>| self.first(key, get).map(|(text, _)| text);
                let program = text("kube_program", |l| l.kube_program.as_ref());
                let mut pod = Pod::parse(pod).map_err(|why| failed("kube", why))?;
                pod.kubectl = kubectl;
                if let Some(program) = program {
                    pod.program.clone_from(program);
                }
                pod.target = text("kube_target", |l| l.kube_target.as_ref()).cloned();
                Ok((None, Some(pod)))
            }
            (None, None) => Ok((None, None)),
        }
    }

    fn path(&self, get: impl Fn(&'a Layer) -> Option<&'a PathBuf>) -> Option<PathBuf> {
        self.layers.iter().find_map(|l| {
            let base = l.origin.directory().unwrap_or(self.cwd);
            Some(base.join(get(l)?))
        })
    }

    fn address(
        &self,
        key: &str,
        get: impl Fn(&'a Layer) -> Option<&'a String>,
    ) -> Result<Option<SocketAddr>, Error> {
        let Some((text, setting)) = self.first(key, get) else { return Ok(None) };
        let why = |e| format!("{text:?} is no address ({e}); expected IP:PORT, as in 127.0.0.1:9465");
        text.parse().map(Some).map_err(|e| Error::Setting { setting, why: why(e) })
    }

    fn duration(&self, key: &str, get: impl Fn(&'a Layer) -> Option<&'a String>) -> Result<Duration, Error> {
        let Some((text, setting)) = self.first(key, get) else { return Ok(DEFAULT_TIMEOUT) };
        match humantime::parse_duration(text) {
            Ok(limit) if !limit.is_zero() => Ok(limit),
            Ok(_) => Err(Error::Setting { setting, why: "must be more than 0".to_owned() }),
            Err(e) => Err(Error::Setting {
                setting,
                why: format!("{text:?} is no duration ({e}); expected one like 10s or 500ms"),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> Layer {
        Layer::from_toml(Path::new("/etc/ac/agent-client.toml"), text).unwrap()
    }

    fn resolve(layers: &[Layer]) -> Result<Config, String> {
        Config::resolve(layers, Path::new("/home/me")).map_err(|e| e.to_string())
    }

    #[test]
    fn defaults() {
        let config = resolve(&[]).unwrap();
        assert!(
            config.sidecar_url.is_none() && config.token_file.is_none() && config.workspace_root.is_none()
        );
        assert_eq!(config.local_root, Path::new("/home/me"));
        assert_eq!(config.client_name, "agent-client");
        assert_eq!(config.connect_timeout, Duration::from_secs(10));
        assert_eq!(config.initialize_timeout, Duration::from_secs(10));
    }

    #[test]
    fn flags_beat_environment_beats_file() {
        let flags = Layer { client_name: Some("flag".into()), ..Layer::default() };
        let env = Layer {
            origin: Origin::Environment,
            client_name: Some("env".into()),
            connect_timeout: Some("2s".into()),
            ..Layer::default()
        };
        let file = file("client_name = 'file'\nconnect_timeout = '3s'\ninitialize_timeout = '4s'");
        let config = resolve(&[flags, env, file]).unwrap();
        assert_eq!(config.client_name, "flag");
        assert_eq!(config.connect_timeout, Duration::from_secs(2));
        assert_eq!(config.initialize_timeout, Duration::from_secs(4));
    }

    #[test]
    fn relative_paths_start_where_they_were_written() {
        let flags = Layer { token_file: Some("t".into()), ..Layer::default() };
        let config = resolve(&[flags, file("local_root = '../x'\ntoken_file = 'u'")]).unwrap();
        assert_eq!(config.token_file.unwrap(), Path::new("/home/me/t"));
        assert_eq!(config.local_root, Path::new("/etc/ac/../x"));
    }

    #[test]
    fn env_tables_are_merged() {
        let config = resolve(&[file("[env]\nA = '1'\nB = '2'"), file("[env]\nB = '3'")]).unwrap();
        assert_eq!(config.env, BTreeMap::from([("A".into(), "1".into()), ("B".into(), "2".into())]));
    }

    #[test]
    fn bad_values_name_the_setting() {
        let key = "in /etc/ac/agent-client.toml";
        for (text, expected) in [
            ("connect_timeout = 'soon'", format!("connect_timeout {key}: \"soon\" is no duration")),
            ("initialize_timeout = '0s'", format!("initialize_timeout {key}: must be more than 0")),
            ("workspace_root = 'ws'", format!("workspace_root {key}: ws must be absolute")),
            ("sidecar_url = 'http://x'", format!("sidecar_url {key}: ")),
            ("metrics_listen = ':9465'", format!("metrics_listen {key}: \":9465\" is no address")),
        ] {
            let message = resolve(&[file(text)]).unwrap_err();
            assert!(message.starts_with(&expected), "{message}");
        }
        let flags = Layer { connect_timeout: Some("x".into()), ..Layer::default() };
        assert!(resolve(&[flags]).unwrap_err().starts_with("--connect-timeout: "));
    }
}
