//! The keys of signed tokens.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::ConfigError;
use super::source::Settings;

/// What the stock server allows.
const DEFAULT_SKEW: Duration = Duration::from_secs(30);

/// Clocks that differ by more are wrong.
const MAX_SKEW_SECONDS: u64 = 600;

const PUBLIC_KEY: &str = "jwt.publicKeyFile";
const SHARED_SECRET: &str = "jwt.sharedSecretFile";

/// Which signed tokens open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedTokens {
    /// What they are signed with.
    pub key: SigningKey,
    /// The `iss` that they must have.
    pub issuer: Option<String>,
    /// The `aud` that they must have.
    pub audience: Option<String>,
    /// By how much the clock of whoever signs may differ.
    pub skew: Duration,
}

/// What a token is checked by. The algorithm goes by the key, never by the token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SigningKey {
    /// A PEM file with the public key of who signs: Ed25519 or P-256.
    Public(PathBuf),
    /// A file with the secret of both sides, for HS256.
    Shared(PathBuf),
}

impl SigningKey {
    /// The config key that names the file.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            SigningKey::Public(_) => PUBLIC_KEY,
            SigningKey::Shared(_) => SHARED_SECRET,
        }
    }

    pub(crate) fn file(&self) -> &Path {
        match self {
            SigningKey::Public(file) | SigningKey::Shared(file) => file,
        }
    }
}

impl SignedTokens {
    pub(super) fn from_settings(
        settings: &Settings,
        cwd: &Path,
    ) -> Result<Option<SignedTokens>, ConfigError> {
        let refused = |key, reason: &str| Err(ConfigError::Refused { key, reason: reason.to_owned() });
        let text = |key| settings.text(key).filter(|text| !text.is_empty()).map(str::to_owned);
        let (issuer, audience) = (text("jwt.issuer"), text("jwt.audience"));
        let skew = settings.number("jwt.clockSkewSeconds", 0, MAX_SKEW_SECONDS)?;
        let skew = skew.map_or(DEFAULT_SKEW, Duration::from_secs);
        let key = match (text(PUBLIC_KEY), text(SHARED_SECRET)) {
            (Some(_), Some(_)) => {
                return refused(SHARED_SECRET, "jwt.publicKeyFile is set too; leave one of the two out");
            }
            (Some(_), None) if audience.is_none() => {
                return refused(
                    "jwt.audience",
                    "it is required with jwt.publicKeyFile: whoever signs may sign tokens for other services too, and \
                     those must not open this one",
                );
            }
            (Some(file), None) => SigningKey::Public(cwd.join(file)),
            (None, Some(file)) => SigningKey::Shared(cwd.join(file)),
            (None, None) if issuer.is_some() || audience.is_some() => {
                return refused(
                    PUBLIC_KEY,
                    "jwt.issuer or jwt.audience is set, and no key to check signed tokens by; set this one, or \
                     jwt.sharedSecretFile",
                );
            }
            (None, None) => return Ok(None),
        };
        Ok(Some(SignedTokens { key, issuer, audience, skew }))
    }
}
