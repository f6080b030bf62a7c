//! Signed tokens: JWTs, checked by the one algorithm that belongs to the key. What a token says of its algorithm is only
//! compared with that one.

use std::sync::Once;

use ed25519_dalek::pkcs8::DecodePublicKey as _;
use hmac::{Hmac, KeyInit as _, Mac as _};
use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result as JwtResult};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use p256::ecdsa::signature;
use serde::Deserialize;
use sha2::Sha256;

use crate::config::SignedTokens;

/// RFC 7518, section 3.2: a key of HS256 has at least the size of its hash.
const MIN_SECRET_BYTES: usize = 32;

/// Longest `sub`, bytes. It goes into every record of its client.
const MAX_SUBJECT: usize = 128;

/// What the principal of every signed token starts with. No token of a file has a name with a colon.
const PREFIX: &str = "jwt";

/// Checks signed tokens.
pub(super) struct Verifier {
    algorithm: Algorithm,
    key: DecodingKey,
}

#[derive(Deserialize)]
struct Claims {
    sub: Option<String>,
}

impl Verifier {
    /// Of a PEM public key.
    ///
    /// # Errors
    /// What is wrong, and what is expected.
    pub(super) fn public(pem: &[u8]) -> Result<Verifier, &'static str> {
        const EXPECTED: &str = "expected a public key in PEM (BEGIN PUBLIC KEY), Ed25519 or P-256";
        let text = std::str::from_utf8(pem).map_err(|_| EXPECTED)?;
        if text.contains("PRIVATE KEY") {
            return Err("it holds a private key, which belongs to who signs alone; put the public key there");
        }
        if let Ok(key) = ed25519_dalek::VerifyingKey::from_public_key_pem(text) {
            if key.is_weak() {
                return Err("anybody can sign for this key; make another one");
            }
            return Ok(Verifier {
                algorithm: Algorithm::EdDSA,
                key: DecodingKey::from_ed_der(key.as_bytes()),
            });
        }
        let key = p256::ecdsa::VerifyingKey::from_public_key_pem(text).map_err(|_| EXPECTED)?;
        let point = key.to_sec1_point(false);
        Ok(Verifier { algorithm: Algorithm::ES256, key: DecodingKey::from_ec_der(point.as_bytes()) })
    }

    /// Of a secret; white space around it does not belong to it.
    ///
    /// # Errors
    /// What is wrong, and what is expected.
    pub(super) fn shared(secret: &[u8]) -> Result<Verifier, &'static str> {
        let secret = secret.trim_ascii();
        if secret.starts_with(b"-----BEGIN") {
            return Err("it holds a key in PEM, not a secret; a public key belongs to jwt.publicKeyFile");
        }
        if secret.len() < MIN_SECRET_BYTES {
            return Err("the secret is too short; it must have at least 32 bytes, all of them random");
        }
        let key = DecodingKey::from_secret(secret).map_err(|_| "the secret cannot be used")?;
        Ok(Verifier { algorithm: Algorithm::HS256, key })
    }

    /// Who shows this, where it is a token that is valid now.
    pub(super) fn principal(&self, expected: &SignedTokens, shown: &[u8]) -> Option<String> {
        static INSTALLED: Once = Once::new();
        // Fails where the process has a provider already, which knows these algorithms too.
        INSTALLED.call_once(|| {
            let _ = PROVIDER.install_default();
        });
        let mut validation = Validation::new(self.algorithm);
        validation.leeway = expected.skew.as_secs();
        validation.validate_nbf = true;
        let mut required = vec!["exp"];
        if let Some(issuer) = &expected.issuer {
            validation.set_issuer(&[issuer]);
            required.push("iss");
        }
        if let Some(audience) = &expected.audience {
            validation.set_audience(&[audience]);
            required.push("aud");
        }
        validation.set_required_spec_claims(&required);
        let token = jsonwebtoken::decode::<Claims>(shown, &self.key, &validation).ok()?;
        match token.claims.sub {
            // The stock server asks for none.
            None => Some(PREFIX.to_owned()),
            Some(sub) if sub.is_empty() || sub.len() > MAX_SUBJECT || sub.contains(char::is_control) => None,
            Some(sub) => Some(format!("{PREFIX}:{sub}")),
        }
    }
}

/// The three algorithms and no other: the library's own sets bring RSA along.
static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(ErrorKind::InvalidAlgorithm.into()),
    verifier_factory: algorithm,
    key_utils: KeyUtils::new_unimplemented(),
};

fn algorithm(algorithm: &Algorithm, key: &DecodingKey) -> JwtResult<Box<dyn JwtVerifier>> {
    let bytes = key.try_get_as_bytes()?;
    Ok(match algorithm {
        Algorithm::HS256 => {
            Box::new(Hs256(Hmac::new_from_slice(bytes).map_err(|_| ErrorKind::InvalidKeyFormat)?))
        }
        Algorithm::EdDSA => {
            let key = bytes.try_into().ok().and_then(|key| ed25519_dalek::VerifyingKey::from_bytes(key).ok());
            Box::new(EdDsa(key.ok_or(ErrorKind::InvalidEddsaKey)?))
        }
        Algorithm::ES256 => {
            let key = p256::ecdsa::VerifyingKey::from_sec1_bytes(bytes);
            Box::new(Es256(key.map_err(|_| ErrorKind::InvalidEcdsaKey)?))
        }
        _ => return Err(ErrorKind::InvalidAlgorithm.into()),
    })
}

struct Hs256(Hmac<Sha256>);

impl signature::Verifier<Vec<u8>> for Hs256 {
    fn verify(&self, message: &[u8], shown: &Vec<u8>) -> Result<(), signature::Error> {
        // In constant time.
        self.0.clone().chain_update(message).verify_slice(shown).map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for Hs256 {
    fn algorithm(&self) -> Algorithm {
        Algorithm::HS256
    }
}

struct EdDsa(ed25519_dalek::VerifyingKey);

impl signature::Verifier<Vec<u8>> for EdDsa {
    fn verify(&self, message: &[u8], shown: &Vec<u8>) -> Result<(), signature::Error> {
        self.0.verify_strict(message, &ed25519_dalek::Signature::from_slice(shown)?)
    }
}

impl JwtVerifier for EdDsa {
    fn algorithm(&self) -> Algorithm {
        Algorithm::EdDSA
    }
}

struct Es256(p256::ecdsa::VerifyingKey);

impl signature::Verifier<Vec<u8>> for Es256 {
    fn verify(&self, message: &[u8], shown: &Vec<u8>) -> Result<(), signature::Error> {
        self.0.verify(message, &p256::ecdsa::Signature::from_slice(shown)?)
    }
}

impl JwtVerifier for Es256 {
    fn algorithm(&self) -> Algorithm {
        Algorithm::ES256
    }
}

#[cfg(test)]
mod tests;
