//! Who may connect to a TCP listener: bearer tokens in a file.
//!
//! The file is read again at every handshake, so that a token can be changed without a restart; nothing of it is kept.
//! It never tells a caller what was wrong.

use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use subtle::ConstantTimeEq as _;

use crate::config::AuthMode;

/// 256 bits, as many as the tokens that the sidecar makes.
const TOKEN_BYTES: usize = 32;

/// A token file has a line per client; anything larger is the wrong file.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Checks the `Authorization` header of an upgrade.
#[derive(Debug)]
pub(crate) struct Auth {
    file: Option<PathBuf>,
}

/// Why there are no tokens to check against.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// The token file cannot be read.
    #[error("token file {0:?}: {1}")]
    Unreadable(PathBuf, #[source] io::Error),
    /// The token file holds no token, or one that cannot be sent.
    #[error("token file {0:?}: {1}")]
    Content(PathBuf, &'static str),
    /// The generated token cannot be written.
    #[error("cannot write the generated token to {0:?}: {1}")]
    Unwritable(PathBuf, #[source] io::Error),
}

/// Why a client is refused. It is not told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It shows nothing.
    Missing,
    /// What it shows is no valid token.
    Wrong,
    /// There is no token to check against.
    Unavailable,
}

impl Refusal {
    /// The metric label.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Refusal::Missing => "missing",
            Refusal::Wrong => "wrong",
            Refusal::Unavailable => "unavailable",
        }
    }
}

/// A token and what its client is called in the log.
struct Token {
    name: String,
    secret: String,
}

impl Auth {
    /// Makes the token where it is to be generated, and shows that there is one.
    pub(crate) fn start(mode: &AuthMode) -> Result<Auth, AuthError> {
        let file = match mode {
            AuthMode::Off => return Ok(Auth { file: None }),
            AuthMode::TokenFile(file) => file,
            AuthMode::Generated(file) => {
                generate(file).map_err(|e| AuthError::Unwritable(file.clone(), e))?;
                tracing::info!(path = %file.display(), "the token is in this file");
                file
            }
        };
        for token in read_tokens(file)?.iter().filter(|token| token.secret.len() < TOKEN_BYTES) {
            tracing::warn!(
                name = token.name,
                "this token is short; use at least {TOKEN_BYTES} random characters"
            );
        }
        Ok(Auth { file: Some(file.clone()) })
    }

    /// The name of the client that shows a valid token.
    pub(crate) async fn admit(&self, authorization: Option<&[u8]>) -> Result<String, Refusal> {
        let Some(file) = self.file.clone() else { return Ok(String::from("anybody")) };
        let shown = bearer(authorization.ok_or(Refusal::Missing)?).ok_or(Refusal::Wrong)?.to_vec();
        let tokens = tokio::task::spawn_blocking(move || read_tokens(&file)).await;
        match tokens.map_err(|_| Refusal::Unavailable)? {
            Ok(tokens) => find(tokens, &shown).ok_or(Refusal::Wrong),
            Err(e) => {
                tracing::error!(error = %e, "nobody can connect: there is no token to check against");
                Err(Refusal::Unavailable)
            }
        }
    }

    /// Whether there are tokens to check against.
    pub(crate) async fn recheck(&self) -> Result<(), AuthError> {
        let Some(file) = self.file.clone() else { return Ok(()) };
        let path = file.clone();
        match tokio::task::spawn_blocking(move || read_tokens(&file)).await {
            Ok(tokens) => tokens.map(drop),
            Err(e) => Err(AuthError::Unreadable(path, io::Error::other(e))),
        }
    }
}

/// Looks at every token, whichever matches: the time taken tells nothing about which one it was.
fn find(tokens: Vec<Token>, shown: &[u8]) -> Option<String> {
    let mut found = None;
    for token in tokens {
        if bool::from(token.secret.as_bytes().ct_eq(shown)) {
            found = Some(token.name);
        }
    }
    found
}

fn bearer(header: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = header.split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| rest.trim_ascii())
}

fn read_tokens(file: &Path) -> Result<Vec<Token>, AuthError> {
    let mut text = String::new();
    std::fs::File::open(file)
        .and_then(|opened| opened.take(MAX_FILE_BYTES).read_to_string(&mut text))
        .map_err(|e| AuthError::Unreadable(file.to_owned(), e))?;
    parse(&text).map_err(|why| AuthError::Content(file.to_owned(), why))
}

/// Lines `name:token` or a bare token; blank lines and `#` comments are skipped.
fn parse(text: &str) -> Result<Vec<Token>, &'static str> {
    let mut tokens = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (name, secret) = match line.split_once(':') {
            Some((name, secret)) => (name.trim().to_owned(), secret.trim()),
            None => (format!("token-{}", tokens.len() + 1), line),
        };
        if secret.is_empty() || !secret.bytes().all(|b| b.is_ascii_graphic()) {
            return Err("a token is empty, or holds a space or a character that is not ASCII");
        }
        tokens.push(Token { name, secret: secret.to_owned() });
    }
    if tokens.is_empty() { Err("it holds no token") } else { Ok(tokens) }
}

/// Replaces the file, so that whoever reads it sees the old token or the new one.
fn generate(file: &Path) -> io::Result<()> {
    let mut secret = [0; TOKEN_BYTES];
    getrandom::fill(&mut secret).map_err(io::Error::other)?;
    let text: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    let dir = file.parent().unwrap_or(Path::new("/"));
    // tempfile makes it 0600.
    let mut temp = tempfile::NamedTempFile::new_in(dir)?;
    writeln!(temp, "{text}")?;
    temp.persist(file)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn lines() {
        let tokens = parse("# comment\n\n a:secret \nbare\r\nb: x:y\n").expect("tokens");
        let all: Vec<_> = tokens.iter().map(|t| (t.name.as_str(), t.secret.as_str())).collect();
        assert_eq!(all, [("a", "secret"), ("token-2", "bare"), ("b", "x:y")]);
        for bad in ["", "# only", "a:", "two words", "name:tökén"] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }

    #[tokio::test]
    async fn rotation_needs_no_restart() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("token");
        std::fs::write(&file, "one:first\ntwo:second\n").expect("written");
        let auth = Auth::start(&AuthMode::TokenFile(file.clone())).expect("tokens");
        assert_eq!(auth.admit(Some(b"Bearer second")).await.as_deref(), Ok("two"));
        assert_eq!(auth.admit(Some(b"bearer first")).await.as_deref(), Ok("one"));
        for wrong in [&b"Bearer secon"[..], b"Bearer ", b"Basic second", b"second", b"Bearer second2", b""] {
            assert_eq!(auth.admit(Some(wrong)).await, Err(Refusal::Wrong));
        }
        assert_eq!(auth.admit(None).await, Err(Refusal::Missing));
        std::fs::write(&file, "third").expect("written");
        assert_eq!(auth.admit(Some(b"Bearer second")).await, Err(Refusal::Wrong));
        assert_eq!(auth.admit(Some(b"Bearer third")).await.as_deref(), Ok("token-1"));
        std::fs::remove_file(&file).expect("removed");
        assert_eq!(auth.admit(Some(b"Bearer third")).await, Err(Refusal::Unavailable));
    }

    #[tokio::test]
    async fn a_generated_token_is_private_and_works() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("token");
        let auth = Auth::start(&AuthMode::Generated(file.clone())).expect("a token");
        let text = std::fs::read_to_string(&file).expect("readable");
        assert_eq!(text.trim().len(), 2 * TOKEN_BYTES);
        assert_eq!(file.metadata().expect("there").permissions().mode() & 0o777, 0o600);
        let header = format!("Bearer {}", text.trim());
        assert_eq!(auth.admit(Some(header.as_bytes())).await.as_deref(), Ok("token-1"));
    }

    #[test]
    fn no_token_no_start() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("token");
        assert!(matches!(Auth::start(&AuthMode::TokenFile(file.clone())), Err(AuthError::Unreadable(..))));
        std::fs::write(&file, "\n").expect("written");
        assert!(matches!(Auth::start(&AuthMode::TokenFile(file)), Err(AuthError::Content(..))));
    }
}
