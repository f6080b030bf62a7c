//! The keys of TLS listeners.

use std::path::{Path, PathBuf};

use super::error::ConfigError;
use super::listen::ListenUrl;
use super::source::Settings;

const CERT: &str = "tls.certFile";
const KEY: &str = "tls.keyFile";

/// What the sidecar shows to who connects by `wss://`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// PEM: its certificate, and those that lead to one that clients trust.
    pub cert: PathBuf,
    /// PEM: the private key of the first.
    pub key: PathBuf,
}

impl TlsFiles {
    pub(super) fn from_settings(
        settings: &Settings,
        cwd: &Path,
        listen: &[ListenUrl],
    ) -> Result<Option<TlsFiles>, ConfigError> {
        let refused = |key, reason: String| Err(ConfigError::Refused { key, reason });
        let file = |key| settings.text(key).filter(|text| !text.is_empty()).map(|text| cwd.join(text));
        let listener = listen.iter().find(|url| url.is_tls());
        match (listener, file(CERT), file(KEY)) {
            (Some(url), _, _) if !cfg!(feature = "tls") => refused(
                "listen",
                format!(
                    "{url}: this program is built without TLS; build it with --features tls, or listen on ws://"
                ),
            ),
            (Some(_), Some(cert), Some(key)) => Ok(Some(TlsFiles { cert, key })),
            (Some(url), cert, _) => {
                let key = if cert.is_none() { CERT } else { KEY };
                refused(key, format!("{url} needs it: set tls.certFile and tls.keyFile, both in PEM"))
            }
            (None, None, None) => Ok(None),
            (None, cert, _) => {
                let key = if cert.is_some() { CERT } else { KEY };
                refused(key, String::from("nothing listens on wss://IP:PORT; change listen, or leave it out"))
            }
        }
    }

    /// The files, with the keys that name them.
    pub(crate) fn files(&self) -> [(&'static str, &Path); 2] {
        [(CERT, &self.cert), (KEY, &self.key)]
    }
}
