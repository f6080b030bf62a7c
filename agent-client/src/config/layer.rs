//! Where settings come from, still as text: the flags, the environment, a file; and which file is searched for.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// An environment, by name.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Which source a layer is of; errors name settings accordingly.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Origin {
    /// `--connect-timeout`
    #[default]
    Flags,
    /// `AGENT_CLIENT_CONNECT_TIMEOUT`
    Environment,
    /// `CODEX_EXEC_SERVER_URL`, the stock client's one variable.
    CodexEnvironment,
    /// `connect_timeout` in this file.
    File(PathBuf),
}

impl Origin {
    /// How the user calls the setting that the config file calls `key`.
    pub fn setting(&self, key: &str) -> String {
        match self {
            Origin::Flags => format!("--{}", key.replace('_', "-")),
            Origin::Environment => variable(key),
            Origin::CodexEnvironment => CODEX_URL.to_owned(),
            Origin::File(path) => format!("{key} in {}", path.display()),
        }
    }

    /// What relative paths start from; `None` is the current directory.
    pub(super) fn directory(&self) -> Option<&Path> {
        match self {
            Origin::File(path) => path.parent(),
            _ => None,
        }
    }
}

const CODEX_URL: &str = "CODEX_EXEC_SERVER_URL";

fn variable(key: &str) -> String {
    format!("AGENT_CLIENT_{}", key.to_uppercase())
}

/// The settings of one source; absent ones are left to weaker layers. The fields are the keys of the config file.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "the names are those of `Config`, where they are described")]
pub struct Layer {
    #[serde(skip)]
    pub origin: Origin,
    pub sidecar_url: Option<String>,
    pub kube: Option<String>,
    pub kubectl: Option<PathBuf>,
    pub kube_program: Option<String>,
    pub kube_target: Option<String>,
    pub token_file: Option<PathBuf>,
    pub local_root: Option<PathBuf>,
    pub workspace_root: Option<PathBuf>,
    pub client_name: Option<String>,
    pub connect_timeout: Option<String>,
    pub initialize_timeout: Option<String>,
    pub metrics_listen: Option<String>,
    pub metrics_file: Option<PathBuf>,
    pub env: BTreeMap<String, String>,
}

impl Layer {
    /// Parses a config file's text. `path` is for messages and as the base of relative paths.
    ///
    /// # Errors
    /// [`Error::ConfigParse`] names the unknown key, or the value of the wrong type, and its line.
    pub fn from_toml(path: &Path, text: &str) -> Result<Self, Error> {
        let layer: Layer = toml::from_str(text)
            .map_err(|cause| Error::ConfigParse { path: path.to_owned(), cause: Box::new(cause) })?;
        Ok(Self { origin: Origin::File(path.to_owned()), ..layer })
    }

    /// `AGENT_CLIENT_…`, then the stock client's URL; empty variables count as unset. Other names are not looked at:
    /// Kubernetes adds `AGENT_CLIENT_SERVICE_HOST` and the like beside a service of that name.
    ///
    /// # Errors
    /// [`Error::Setting`] for a text that is not UTF-8.
    pub fn from_env(env: Lookup<'_>) -> Result<[Self; 2], Error> {
        let path = |key: &str| present(env, &variable(key)).map(PathBuf::from);
        let text = |key: &str| utf8(env, &variable(key));
        let own = Self {
            origin: Origin::Environment,
            sidecar_url: text("sidecar_url")?,
            kube: text("kube")?,
            kubectl: path("kubectl"),
            kube_program: text("kube_program")?,
            kube_target: text("kube_target")?,
            token_file: path("token_file"),
            local_root: path("local_root"),
            workspace_root: path("workspace_root"),
            client_name: text("client_name")?,
            connect_timeout: text("connect_timeout")?,
            initialize_timeout: text("initialize_timeout")?,
            metrics_listen: text("metrics_listen")?,
            metrics_file: path("metrics_file"),
            env: BTreeMap::new(),
        };
        let codex =
            Self { origin: Origin::CodexEnvironment, sidecar_url: utf8(env, CODEX_URL)?, ..Self::default() };
        Ok([own, codex])
    }
}

fn present(env: Lookup<'_>, name: &str) -> Option<OsString> {
    env(name).filter(|value| !value.is_empty())
}

fn utf8(env: Lookup<'_>, name: &str) -> Result<Option<String>, Error> {
    present(env, name)
        .map(OsString::into_string)
        .transpose()
        .map_err(|_| Error::Setting { setting: name.to_owned(), why: "must be UTF-8".to_owned() })
}

/// Which config file is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Search {
    /// The one that was asked for; it must exist.
    Named(PathBuf),
    /// The first of these that exists, if any.
    FirstOf(Vec<PathBuf>),
}

impl Search {
    /// `--config`, `$AGENT_CLIENT_CONFIG`, `./agent-client.toml`, `$XDG_CONFIG_HOME/agent-client/config.toml`
    /// (`~/.config` where that is unset).
    pub fn new(flag: Option<&Path>, env: Lookup<'_>, cwd: &Path) -> Self {
        if let Some(named) =
            flag.map(PathBuf::from).or_else(|| present(env, &variable("config")).map(PathBuf::from))
        {
            return Search::Named(cwd.join(named));
        }
        let config_home = present(env, "XDG_CONFIG_HOME")
            .map(PathBuf::from)
            .or_else(|| present(env, "HOME").map(|home| Path::new(&home).join(".config")))
            // The XDG specification has relative ones ignored.
            .filter(|dir| dir.is_absolute());
        let user = config_home.map(|dir| dir.join("agent-client/config.toml"));
        Search::FirstOf([cwd.join("agent-client.toml")].into_iter().chain(user).collect())
    }

    /// Reads and parses the file.
    ///
    /// # Errors
    /// [`Error::ConfigRead`], [`Error::ConfigParse`]. Only a file that was not asked for may be missing.
    pub fn read(&self) -> Result<Option<Layer>, Error> {
        let (paths, required) = match self {
            Search::Named(path) => (std::slice::from_ref(path), true),
            Search::FirstOf(paths) => (paths.as_slice(), false),
        };
        for path in paths {
            match std::fs::read_to_string(path) {
                Ok(text) => return Layer::from_toml(path, &text).map(Some),
                Err(e) if e.kind() == io::ErrorKind::NotFound && !required => {}
                Err(cause) => return Err(Error::ConfigRead { path: path.clone(), cause }),
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<OsString> + 'a {
        |name| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| OsString::from(v))
    }

    #[test]
    fn an_unknown_key_is_named() {
        for key in ["sidecar-url", "metricsListen", "tokenfile"] {
            let text = format!("client_name = 'x'\n\"{key}\" = 'y'");
            let message = Layer::from_toml(Path::new("/a.toml"), &text).unwrap_err().to_string();
            assert!(message.contains("/a.toml") && message.contains(key), "{message}");
        }
        let message = Layer::from_toml(Path::new("/a.toml"), "env = 3").unwrap_err().to_string();
        assert!(message.contains("line 1"), "{message}");
    }

    #[test]
    fn every_key_has_its_variable() {
        let pairs = [
            ("AGENT_CLIENT_SIDECAR_URL", "ws://a"),
            ("AGENT_CLIENT_TOKEN_FILE", "t"),
            ("AGENT_CLIENT_LOCAL_ROOT", "l"),
            ("AGENT_CLIENT_WORKSPACE_ROOT", "w"),
            ("AGENT_CLIENT_CLIENT_NAME", "n"),
            ("AGENT_CLIENT_CONNECT_TIMEOUT", "1s"),
            ("AGENT_CLIENT_INITIALIZE_TIMEOUT", ""),
            ("CODEX_EXEC_SERVER_URL", "ws://b"),
        ];
        let [own, codex] = Layer::from_env(&env(&pairs)).unwrap();
        assert_eq!(own.sidecar_url.as_deref(), Some("ws://a"));
        assert_eq!(own.token_file.as_deref(), Some(Path::new("t")));
        assert_eq!(own.local_root.as_deref(), Some(Path::new("l")));
        assert_eq!(own.workspace_root.as_deref(), Some(Path::new("w")));
        assert_eq!(own.client_name.as_deref(), Some("n"));
        assert_eq!(own.connect_timeout.as_deref(), Some("1s"));
        assert_eq!(own.initialize_timeout, None, "empty counts as unset");
        assert_eq!(codex.sidecar_url.as_deref(), Some("ws://b"));
        assert_eq!(codex.origin.setting("sidecar_url"), "CODEX_EXEC_SERVER_URL");
    }

    #[test]
    fn search_order() {
        let cwd = Path::new("/w");
        let pairs = [("AGENT_CLIENT_CONFIG", "e.toml"), ("XDG_CONFIG_HOME", "/x"), ("HOME", "/h")];
        assert_eq!(
            Search::new(Some(Path::new("/f.toml")), &env(&pairs), cwd),
            Search::Named("/f.toml".into())
        );
        assert_eq!(Search::new(None, &env(&pairs), cwd), Search::Named("/w/e.toml".into()));
        for (pairs, user) in [(&pairs[1..], "/x"), (&pairs[2..], "/h/.config")] {
            assert_eq!(
                Search::new(None, &env(pairs), cwd),
                Search::FirstOf(vec![
                    "/w/agent-client.toml".into(),
                    Path::new(user).join("agent-client/config.toml")
                ])
            );
        }
    }

    #[test]
    fn only_a_named_file_must_exist() {
        let missing = PathBuf::from("/nowhere/a.toml");
        assert!(Search::FirstOf(vec![missing.clone()]).read().unwrap().is_none());
        let message = Search::Named(missing).read().unwrap_err().to_string();
        assert!(message.contains("/nowhere/a.toml"), "{message}");
    }
}
