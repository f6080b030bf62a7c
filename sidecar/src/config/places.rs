//! The places that the config names, resolved: workspace, roots, token file, state directory.
//!
//! What the sidecar keeps secret must lie outside every tree that launches write to: Landlock can protect a path only
//! by not granting its parent, and then nobody could create files there any more.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sidecar_sandbox::{CustomProfile, Roots};

use super::error::ConfigError;
use super::source::{Inputs, Settings};
use super::{AuditConfig, AuthMode, ListenUrl, SignedTokens, TlsFiles, profiles};

/// The container's directory for temporary files; agents know it by this name.
const TMP: &str = "/tmp";

const TOKEN_NAME: &str = "token";

pub(super) struct Places {
    /// What is protected in them is yet to be said.
    pub(super) roots: Roots,
    pub(super) profiles: Vec<Arc<CustomProfile>>,
}

impl Places {
    pub(super) fn resolve(settings: &Settings, inputs: &Inputs) -> Result<Places, ConfigError> {
        let text = settings.text("workspaceRoot").unwrap_or(".");
        let workspace = inputs
            .cwd
            .join(text)
            .canonicalize()
            .and_then(|path| if path.is_dir() { Ok(path) } else { Err(io::ErrorKind::NotADirectory.into()) })
            .map_err(|e| settings.bad("workspaceRoot", text, format!("an existing directory ({e})")))?;
        let paths = |key| settings.list(key).iter().map(|path| inputs.cwd.join(path)).collect();
        let roots = Roots {
            workspace,
            home: directory(&inputs.env, "HOME"),
            tmp: PathBuf::from(TMP),
            read_roots: paths("readRoots"),
            write_roots: paths("writeRoots"),
            protected: Vec::new(),
        };
        Ok(Places { roots, profiles: profiles::from_settings(settings, &inputs.cwd)? })
    }

    /// Decides who may connect. Makes the state directory where the token is to be generated.
    pub(super) fn auth(
        &self,
        settings: &Settings,
        inputs: &Inputs,
        signed: Option<SignedTokens>,
    ) -> Result<AuthMode, ConfigError> {
        let both = |key, other| {
            let reason = format!("{other} is set too; leave one of the two out");
            Err(ConfigError::Refused { key, reason })
        };
        let open = settings.boolean("insecureNoAuth") == Some(true);
        match (settings.text("tokenFile"), signed) {
            (Some(_), Some(signed)) => both(signed.key.name(), "tokenFile"),
            (Some(_), None) if open => both("insecureNoAuth", "tokenFile"),
            (None, Some(signed)) if open => both("insecureNoAuth", signed.key.name()),
            (Some(file), None) => {
                let file = inputs.cwd.join(file);
                self.outside_write_roots("tokenFile", &file)?;
                Ok(AuthMode::TokenFile(file))
            }
            (None, Some(signed)) => {
                self.outside_write_roots(signed.key.name(), signed.key.file())?;
                Ok(AuthMode::Signed(signed))
            }
            (None, None) if open => Ok(AuthMode::Off),
            (None, None) => Ok(AuthMode::Generated(self.state_dir(settings, inputs)?.join(TOKEN_NAME))),
        }
    }

    /// What no launch may touch, beside what the sandbox protects by itself.
    pub(super) fn protected(
        &self,
        settings: &Settings,
        inputs: &Inputs,
        auth: &AuthMode,
        audit: &AuditConfig,
        tls: Option<&TlsFiles>,
    ) -> Result<Vec<PathBuf>, ConfigError> {
        let mut protected: Vec<PathBuf> =
            settings.list("protectedPaths").iter().map(|path| inputs.cwd.join(path)).collect();
        if let Some(dir) = settings.text("stateDir") {
            protected.push(inputs.cwd.join(dir));
        }
        match auth {
            AuthMode::TokenFile(file) => protected.push(file.clone()),
            AuthMode::Generated(file) => protected.extend(file.parent().map(Path::to_owned)),
            AuthMode::Signed(signed) => protected.push(signed.key.file().to_owned()),
            AuthMode::Off => {}
        }
        protected.extend(audit.files());
        for (key, file) in tls.into_iter().flat_map(TlsFiles::files) {
            self.outside_write_roots(key, file)?;
            protected.push(file.to_owned());
        }
        if let Some((file, _)) = &inputs.file {
            let file = inputs.cwd.join(file);
            self.outside_write_roots("--config", &file)?;
            protected.push(file);
        }
        Ok(protected)
    }

    /// Refuses a sink that a launch could write to.
    pub(super) fn audit(&self, audit: &AuditConfig) -> Result<(), ConfigError> {
        audit.files().iter().try_for_each(|file| self.outside_write_roots("audit.sink", file))
    }

    /// The unix sockets among the listeners, which launches must not be able to replace.
    pub(super) fn sockets(&self, listen: &[ListenUrl]) -> Result<Vec<PathBuf>, ConfigError> {
        let socket = |url: &ListenUrl| match url {
            ListenUrl::Unix(path) => Some(path.clone()),
            ListenUrl::Ws(_) | ListenUrl::Wss(_) | ListenUrl::Stdio => None,
        };
        let sockets: Vec<PathBuf> = listen.iter().filter_map(socket).collect();
        sockets.iter().try_for_each(|path| self.outside_write_roots("listen", path))?;
        Ok(sockets)
    }

    fn state_dir(&self, settings: &Settings, inputs: &Inputs) -> Result<PathBuf, ConfigError> {
        if let Some(text) = settings.text("stateDir") {
            let dir = inputs.cwd.join(text);
            self.outside_write_roots("stateDir", &dir)?;
            make_private(&dir)
                .map_err(|e| settings.bad("stateDir", text, format!("a writable directory ({e})")))?;
            return Ok(dir);
        }
        state_dir_candidates(&inputs.env)
            .into_iter()
            .find(|dir| self.outside_write_roots("stateDir", dir).is_ok() && make_private(dir).is_ok())
            .ok_or_else(|| ConfigError::Refused {
                key: "stateDir",
                reason: String::from(
                    "there is no place for the generated token: set SANDBOX_SIDECAR_STATE to a directory that the \
                     sidecar can write to and that lies outside the workspace, /tmp and writeRoots; or set tokenFile",
                ),
            })
    }

    fn outside_write_roots(&self, key: &'static str, path: &Path) -> Result<(), ConfigError> {
        match self.roots.write_root_of(&self.profiles, path) {
            None => Ok(()),
            Some(root) => Err(ConfigError::Refused {
                key,
                reason: format!(
                    "{} lies inside {}, which launches write to; move it out of there, for example to \
                     /run/sandbox-sidecar or /etc/sandbox-sidecar",
                    path.display(),
                    root.display()
                ),
            }),
        }
    }
}

/// A variable's directory, where it says something: HOME is `/` for a uid without a passwd entry.
fn directory(env: &BTreeMap<String, String>, name: &str) -> Option<PathBuf> {
    env.get(name).map(PathBuf::from).filter(|dir| dir.is_absolute() && dir != Path::new("/"))
}

/// In order of preference.
fn state_dir_candidates(env: &BTreeMap<String, String>) -> Vec<PathBuf> {
    let directory = |name| directory(env, name);
    let state_home =
        directory("XDG_STATE_HOME").or_else(|| directory("HOME").map(|home| home.join(".local/state")));
    [directory("XDG_RUNTIME_DIR"), Some(PathBuf::from("/run")), state_home]
        .into_iter()
        .flatten()
        .map(|dir| dir.join("sandbox-sidecar"))
        .collect()
}

/// Makes the directory where it is missing, and shows that files can be made in it.
fn make_private(dir: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    tempfile::tempfile_in(dir).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn where_the_state_directory_may_be() {
        let list = |pairs: &[(&str, &str)]| -> Vec<String> {
            state_dir_candidates(&env(pairs)).iter().map(|p| p.display().to_string()).collect()
        };
        assert_eq!(
            list(&[("XDG_RUNTIME_DIR", "/run/user/7"), ("HOME", "/home/a"), ("XDG_STATE_HOME", "/s")]),
            ["/run/user/7/sandbox-sidecar", "/run/sandbox-sidecar", "/s/sandbox-sidecar"]
        );
        assert_eq!(
            list(&[("HOME", "/home/a")]).last().map(String::as_str),
            Some("/home/a/.local/state/sandbox-sidecar")
        );
        for home in ["/", "", "relative"] {
            assert_eq!(list(&[("HOME", home), ("XDG_RUNTIME_DIR", "x")]), ["/run/sandbox-sidecar"]);
        }
    }
}
