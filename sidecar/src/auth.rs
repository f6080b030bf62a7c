//! Who may connect to a TCP listener: whoever shows a token of a file, or one that is signed.
//!
//! The file of tokens, or of the key, is read again at every handshake, so that it can be changed without a restart;
//! nothing of it is kept. It never tells a caller what was wrong.

mod jwt;
pub(crate) mod throttle;
mod tokens;

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use self::tokens::Token;
use crate::config::{AuthMode, SigningKey};

/// A token file has a line per client; anything larger is the wrong file.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Checks the `Authorization` header of an upgrade.
#[derive(Debug, Clone)]
pub(crate) struct Auth {
    mode: AuthMode,
}

/// Why there is nothing to check a token against.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// The file cannot be read.
    #[error("{what} {file:?}: {cause}")]
    Unreadable {
        /// Of what: the config key, where there is one.
        what: &'static str,
        /// Which one.
        file: PathBuf,
        /// What the OS said.
        cause: io::Error,
    },
    /// It does not hold what it should.
    #[error("{what} {file:?}: {why}")]
    Content {
        /// Of what: the config key, where there is one.
        what: &'static str,
        /// Which one.
        file: PathBuf,
        /// What is wrong, and what is expected.
        why: String,
    },
    /// The generated token cannot be written.
    #[error("cannot write the generated token to {0:?}: {1}")]
    Unwritable(PathBuf, #[source] io::Error),
    /// The task that looked died.
    #[error("internal: {0}")]
    Internal(String),
}

/// Why a client is refused. It is not told.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// It shows nothing.
    Missing,
    /// What it shows is no valid token.
    Wrong,
    /// There is nothing to check it against.
    Unavailable(AuthError),
}

impl Refusal {
    /// The metric label.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Refusal::Missing => "missing",
            Refusal::Wrong => "wrong",
            Refusal::Unavailable(_) => "unavailable",
        }
    }
}

impl Auth {
    /// Makes the token where it is to be generated, and shows that there is something to check against. Blocking.
    pub(crate) fn start(mode: &AuthMode) -> Result<Auth, AuthError> {
        if let AuthMode::Generated(file) = mode {
            tokens::generate(file).map_err(|e| AuthError::Unwritable(file.clone(), e))?;
            tracing::info!(path = %file.display(), "the token is in this file");
        }
        match mode {
            AuthMode::Off | AuthMode::Generated(_) => {}
            AuthMode::TokenFile(file) => {
                for token in read_tokens(file)?.iter().filter(|token| token.is_short) {
                    tracing::warn!(
                        name = token.name,
                        "this token is short; use at least 32 random characters"
                    );
                }
            }
            AuthMode::Signed(signed) => drop(read_key(&signed.key)?),
        }
        Ok(Auth { mode: mode.clone() })
    }

    /// The name of the client that shows a valid token.
    pub(crate) async fn admit(&self, authorization: Option<&[u8]>) -> Result<String, Refusal> {
        if self.mode == AuthMode::Off {
            return Ok(String::from("anybody"));
        }
        let shown = bearer(authorization.ok_or(Refusal::Missing)?).ok_or(Refusal::Wrong)?;
        self.check_aside(shown.to_vec()).await.map_err(Refusal::Unavailable)?.ok_or(Refusal::Wrong)
    }

    /// Whether there is something to check against.
    pub(crate) async fn recheck(&self) -> Result<(), AuthError> {
        self.check_aside(Vec::new()).await.map(drop)
    }

    /// Off the async threads: the file may be on a slow disk.
    async fn check_aside(&self, shown: Vec<u8>) -> Result<Option<String>, AuthError> {
        let auth = self.clone();
        let checked = tokio::task::spawn_blocking(move || auth.check(&shown)).await;
        checked.unwrap_or_else(|e| Err(AuthError::Internal(e.to_string())))
    }

    /// The name of the client that shows this, where that is a valid token.
    fn check(&self, shown: &[u8]) -> Result<Option<String>, AuthError> {
        match &self.mode {
            AuthMode::Off => Ok(None),
            AuthMode::TokenFile(file) | AuthMode::Generated(file) => {
                Ok(tokens::find(read_tokens(file)?, shown))
            }
            AuthMode::Signed(signed) => Ok(read_key(&signed.key)?.principal(signed, shown)),
        }
    }
}

fn read_tokens(file: &Path) -> Result<Vec<Token>, AuthError> {
    const WHAT: &str = "token file";
    let bytes = read(WHAT, file)?;
    let tokens = std::str::from_utf8(&bytes).map_err(|e| e.to_string()).and_then(tokens::parse);
    tokens.map_err(|why| AuthError::Content { what: WHAT, file: file.to_owned(), why })
}

fn read_key(key: &SigningKey) -> Result<jwt::Verifier, AuthError> {
    let (what, file) = (key.name(), key.file());
    let bytes = read(what, file)?;
    let verifier = match key {
        SigningKey::Public(_) => jwt::Verifier::public(&bytes),
        SigningKey::Shared(_) => jwt::Verifier::shared(&bytes),
    };
    verifier.map_err(|why| AuthError::Content { what, file: file.to_owned(), why: why.to_owned() })
}

fn bearer(header: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = header.split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| rest.trim_ascii())
}

fn read(what: &'static str, file: &Path) -> Result<Vec<u8>, AuthError> {
    let mut content = Vec::new();
    std::fs::File::open(file)
        .and_then(|opened| opened.take(MAX_FILE_BYTES).read_to_end(&mut content))
        .map_err(|cause| AuthError::Unreadable { what, file: file.to_owned(), cause })?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[tokio::test]
    async fn rotation_needs_no_restart() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("token");
        std::fs::write(&file, "one:first\ntwo:second\n").expect("written");
        let auth = Auth::start(&AuthMode::TokenFile(file.clone())).expect("tokens");
        let name = async |header: &[u8]| auth.admit(Some(header)).await.map_err(|why| why.name());
        assert_eq!(name(b"Bearer second").await.as_deref(), Ok("two"));
        assert_eq!(name(b"bearer first").await.as_deref(), Ok("one"));
        for wrong in [&b"Bearer secon"[..], b"Bearer ", b"Basic second", b"second", b"Bearer second2", b""] {
            assert_eq!(name(wrong).await, Err("wrong"));
        }
        assert!(matches!(auth.admit(None).await, Err(Refusal::Missing)));
        std::fs::write(&file, "one:first\none:new\nthird").expect("written");
        for both in [&b"Bearer first"[..], b"Bearer new"] {
            assert_eq!(name(both).await.as_deref(), Ok("one"), "the old and the new one");
        }
        assert_eq!(name(b"Bearer second").await, Err("wrong"));
        let third = name(b"Bearer third").await.expect("it opens");
        std::fs::write(&file, "third").expect("written");
        assert_eq!(name(b"Bearer third").await, Ok(third), "it is called the same elsewhere in the file");
        std::fs::remove_file(&file).expect("removed");
        assert_eq!(name(b"Bearer third").await, Err("unavailable"));
    }

    #[tokio::test]
    async fn a_generated_token_is_private_and_works() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("token");
        let auth = Auth::start(&AuthMode::Generated(file.clone())).expect("a token");
        let text = std::fs::read_to_string(&file).expect("readable");
        assert_eq!(text.trim().len(), 64);
        assert_eq!(file.metadata().expect("there").permissions().mode() & 0o777, 0o600);
        let header = format!("Bearer {}", text.trim());
        assert!(auth.admit(Some(header.as_bytes())).await.is_ok());
    }

    #[test]
    fn no_token_no_start() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("token");
        let start = || Auth::start(&AuthMode::TokenFile(file.clone()));
        assert!(matches!(start(), Err(AuthError::Unreadable { .. })));
        std::fs::write(&file, "\n").expect("written");
        assert!(matches!(start(), Err(AuthError::Content { .. })));
    }
}
