use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::Signer as _;
use ed25519_dalek::pkcs8::EncodePublicKey as _;
use serde_json::{Value, json};

use super::*;
use crate::config::SigningKey;

const SECRET: &[u8; 32] = b"0123456789abcdef0123456789abcdef";

/// One that signs.
enum Signer {
    Ed(ed25519_dalek::SigningKey),
    P256(p256::ecdsa::SigningKey),
    Secret(Vec<u8>),
}

impl Signer {
    fn all() -> [Signer; 3] {
        [Signer::ed(7), Signer::p256(7), Signer::Secret(SECRET.to_vec())]
    }

    fn ed(seed: u8) -> Signer {
        Signer::Ed(ed25519_dalek::SigningKey::from_bytes(&[seed; 32]))
    }

    fn p256(seed: u8) -> Signer {
        Signer::P256(p256::ecdsa::SigningKey::from_slice(&[seed; 32]).expect("a key"))
    }

    fn name(&self) -> &'static str {
        match self {
            Signer::Ed(_) => "EdDSA",
            Signer::P256(_) => "ES256",
            Signer::Secret(_) => "HS256",
        }
    }

    /// What the other side checks by, as it is in its file.
    fn file(&self) -> Vec<u8> {
        match self {
            Signer::Ed(key) => key.verifying_key().to_public_key_pem(Default::default()).expect("PEM").into(),
            Signer::P256(key) => p256::PublicKey::from(key.verifying_key())
                .to_public_key_pem(Default::default())
                .expect("PEM")
                .into(),
            Signer::Secret(secret) => secret.clone(),
        }
    }

    fn verifier(&self) -> Verifier {
        let verifier = match self {
            Signer::Secret(_) => Verifier::shared(&self.file()),
            _ => Verifier::public(&self.file()),
        };
        verifier.expect("usable")
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        match self {
            Signer::Ed(key) => key.sign(message).to_vec(),
            Signer::P256(key) => {
                let signature: p256::ecdsa::Signature = key.sign(message);
                signature.to_bytes().to_vec()
            }
            Signer::Secret(secret) => {
                let mac = Hmac::<Sha256>::new_from_slice(secret).expect("a key");
                mac.chain_update(message).finalize().into_bytes().to_vec()
            }
        }
    }

    fn token(&self, claims: &Value) -> String {
        self.token_as(&json!({ "alg": self.name(), "typ": "JWT" }), claims)
    }

    fn token_as(&self, header: &Value, claims: &Value) -> String {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let message = format!("{}.{}", part(header), part(claims));
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(self.sign(message.as_bytes())))
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

fn expected() -> SignedTokens {
    SignedTokens {
        key: SigningKey::Public(PathBuf::new()),
        issuer: Some("https://issuer.example".into()),
        audience: Some("sidecar".into()),
        skew: Duration::from_secs(30),
    }
}

fn claims() -> Value {
    json!({ "sub": "alice", "iss": "https://issuer.example", "aud": "sidecar", "exp": now() + 60 })
}

fn with(claim: &str, value: Value) -> Value {
    let mut claims = claims();
    match value {
        Value::Null => drop(claims.as_object_mut().expect("an object").remove(claim)),
        value => claims[claim] = value,
    }
    claims
}

fn shown(signer: &Signer, token: &str) -> Option<String> {
    signer.verifier().principal(&expected(), token.as_bytes())
}

#[test]
fn who_is_signed_for_gets_in_under_the_name_of_the_subject() {
    for signer in Signer::all() {
        for (claims, principal) in [
            (claims(), "jwt:alice"),
            (with("aud", json!(["other", "sidecar"])), "jwt:alice"),
            (with("nbf", json!(now() + 10)), "jwt:alice"),
            (with("exp", json!(now() - 10)), "jwt:alice"),
            (with("sub", Value::Null), "jwt"),
            (with("sub", json!("x".repeat(128))), &format!("jwt:{}", "x".repeat(128))),
        ] {
            let token = signer.token(&claims);
            assert_eq!(shown(&signer, &token).as_deref(), Some(principal), "{} {claims}", signer.name());
        }
    }
}

#[test]
fn what_is_signed_for_something_else_does_not_open() {
    for signer in Signer::all() {
        assert!(shown(&signer, &signer.token(&claims())).is_some(), "the control");
        for claims in [
            with("exp", Value::Null),
            with("exp", json!(now() - 60)),
            with("exp", json!("tomorrow")),
            with("nbf", json!(now() + 60)),
            with("nbf", json!("tomorrow")),
            with("iss", Value::Null),
            with("iss", json!("https://other.example")),
            with("aud", Value::Null),
            with("aud", json!("other")),
            with("aud", json!([])),
            with("sub", json!("")),
            with("sub", json!("x".repeat(129))),
            with("sub", json!("a\nb")),
            with("sub", json!(7)),
        ] {
            assert_eq!(shown(&signer, &signer.token(&claims)), None, "{} {claims}", signer.name());
        }
    }
}

#[test]
fn what_somebody_else_signed_or_changed_does_not_open() {
    for (signer, other) in [
        (Signer::ed(7), Signer::ed(8)),
        (Signer::p256(7), Signer::p256(8)),
        (Signer::Secret(SECRET.to_vec()), Signer::Secret([&SECRET[..], b"x"].concat())),
    ] {
        let token = signer.token(&claims());
        assert!(shown(&signer, &token).is_some(), "the control");
        assert_eq!(shown(&signer, &other.token(&claims())), None, "another key");
        let (message, signature) = token.rsplit_once('.').expect("a signature");
        let (header, _) = message.split_once('.').expect("a header");
        let forged = URL_SAFE_NO_PAD.encode(with("sub", json!("root")).to_string());
        for wrong in [
            format!("{header}.{forged}.{signature}"),
            format!("{message}."),
            format!("{message}.{}", &signature[..signature.len() - 4]),
            message.to_owned(),
            format!("{token}."),
            format!("{token}x"),
            String::from(".."),
            String::new(),
        ] {
            assert_eq!(shown(&signer, &wrong), None, "{} {wrong}", signer.name());
        }
    }
}

/// What belongs to a key decides how it is used, whatever a token says of itself.
#[test]
fn a_token_does_not_choose_its_algorithm() {
    for signer in Signer::all() {
        assert!(shown(&signer, &signer.token(&claims())).is_some(), "the control");
        for name in ["none", "None", "HS256", "HS512", "RS256", "ES256", "ES384", "EdDSA", ""] {
            let token = signer.token_as(&json!({ "alg": name }), &claims());
            assert_eq!(
                shown(&signer, &token).is_some(),
                name == signer.name(),
                "{} as {name}",
                signer.name()
            );
        }
        let unsigned = signer.token_as(&json!({ "alg": "none" }), &claims());
        let unsigned = unsigned.rsplit_once('.').expect("a signature").0;
        assert_eq!(shown(&signer, &format!("{unsigned}.")), None);
        // What everybody may know, taken for the secret of HS256.
        let public = signer.file();
        for secret in [public.clone(), public.trim_ascii().to_vec()] {
            let confused = Signer::Secret(secret).token(&claims());
            assert_eq!(shown(&signer, &confused).is_some(), signer.name() == "HS256", "{}", signer.name());
        }
    }
}

#[test]
fn a_token_that_demands_more_than_is_understood_does_not_open() {
    let signer = Signer::ed(7);
    let header = |crit: Value| json!({ "alg": "EdDSA", "crit": crit, "exp": 1 });
    assert!(shown(&signer, &signer.token_as(&json!({ "alg": "EdDSA", "kid": "1" }), &claims())).is_some());
    assert_eq!(shown(&signer, &signer.token_as(&header(json!(["exp"])), &claims())), None);
}

#[test]
fn an_audience_that_nobody_expects_is_refused() {
    let signer = Signer::Secret(SECRET.to_vec());
    let expected = SignedTokens { issuer: None, audience: None, ..expected() };
    let open = |claims: &Value| signer.verifier().principal(&expected, signer.token(claims).as_bytes());
    assert_eq!(open(&json!({ "exp": now() + 60 })).as_deref(), Some("jwt"), "as the stock server has them");
    assert_eq!(open(&json!({ "exp": now() + 60, "aud": "other" })), None);
}

#[test]
fn keys_that_cannot_be_used_say_why() {
    let private = b"-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIAcHBwc=\n-----END PRIVATE KEY-----\n";
    let public = Signer::ed(7).file();
    let refused = |key: Result<Verifier, &'static str>| key.err().expect("refused");
    assert!(refused(Verifier::public(private)).contains("private key"));
    assert!(refused(Verifier::public(b"")).contains("BEGIN PUBLIC KEY"));
    assert!(refused(Verifier::public(SECRET)).contains("BEGIN PUBLIC KEY"));
    assert!(refused(Verifier::shared(&public)).contains("jwt.publicKeyFile"));
    assert!(refused(Verifier::shared(&SECRET[1..])).contains("32 bytes"));
    assert!(refused(Verifier::shared(b"                                        ")).contains("32 bytes"));
    let weak = ed25519_dalek::VerifyingKey::from_bytes(&{
        let mut identity = [0; 32];
        identity[0] = 1;
        identity
    });
    let weak = weak.expect("a point").to_public_key_pem(Default::default()).expect("PEM");
    assert!(refused(Verifier::public(weak.as_bytes())).contains("anybody can sign"));
}

#[test]
fn white_space_around_a_secret_is_not_part_of_it() {
    let signer = Signer::Secret(SECRET.to_vec());
    let verifier = Verifier::shared(&[b"\n", &SECRET[..], b" \r\n"].concat()).expect("usable");
    assert!(verifier.principal(&expected(), signer.token(&claims()).as_bytes()).is_some());
}
