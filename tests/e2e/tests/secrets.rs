//! Tokens: who guesses is held off and who has the right one is not; and no token is told anywhere.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use e2e::client::dial;
use e2e::http::{self, UPGRADE};
use e2e::scrape::{metrics, sum};
use e2e::server::TOKEN;
use e2e::{Client, Scratch, Server};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::json;
use sha2::Sha256;
use tokio_tungstenite::tungstenite::Error;

const SECRET: &str = "a-secret-of-both-sides-0123456789abcdef";

/// A token that is shown, and opens nothing.
const GUESS: &str = "guess-0123456789abcdef0123456789abcdef";

/// A token that is signed by HS256.
fn signed(secret: &str, expires_in: i64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs().cast_signed();
    let part = |value: serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let claims = json!({ "sub": "alice", "exp": now + expires_in });
    let message = format!("{}.{}", part(json!({ "alg": "HS256" })), part(claims));
    let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap().chain_update(&message);
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
}

/// A server that takes signed tokens.
fn with_signed_tokens(config: &str) -> Server {
    let scratch = Scratch::new();
    let file = scratch.state().join("secret");
    fs::write(&file, SECRET).unwrap();
    let config = format!("{config}jwt.sharedSecretFile = {file:?}\n");
    Server::builder().scratch(scratch).signed().config(&config).start()
}

async fn status(server: &Server, token: &str) -> u16 {
    match dial(server.url(), Some(token), &[]).await {
        Ok(_) => 101,
        Err(Error::Http(answer)) => answer.status().as_u16(),
        Err(e) => panic!("{e}"),
    }
}

#[tokio::test]
async fn a_signed_token_opens_while_it_is_valid_and_its_key_is_there() {
    let server = with_signed_tokens("");
    let right = signed(SECRET, 600);
    assert_eq!(status(&server, &right).await, 101);
    for wrong in [signed(SECRET, -600), signed(&SECRET[1..], 600), SECRET.to_owned(), format!("{right}x")] {
        assert_eq!(status(&server, &wrong).await, 401);
    }
    assert!(server.log().contains("jwt:alice"), "that is who it was");
    let other = "another-secret-of-both-sides-0123456789";
    fs::write(server.scratch().state().join("secret"), other).unwrap();
    assert_eq!(status(&server, &right).await, 401, "the key was changed");
    assert_eq!(status(&server, &signed(other, 600)).await, 101);
}

/// A guess at a time, from the address of everybody: the right token opens all the while.
#[tokio::test]
async fn who_guesses_is_held_off_and_fills_no_log() {
    let server = Server::builder().config("limits.authFailures = 3\n").start();
    let mut answers = Vec::new();
    for _ in 0..20 {
        let answer = http::get(server.url(), "/", &[("Authorization", "Bearer guess")]).await;
        answers.push(answer.status);
        if answer.status == 429 {
            let wait = answer
                .head
                .lines()
                .find_map(|line| line.to_lowercase().strip_prefix("retry-after: ")?.parse().ok());
            assert!((1..=61).contains(&wait.expect("a time to wait")), "{}", answer.head);
        }
        assert_eq!(status(&server, TOKEN).await, 101);
    }
    assert_eq!(answers, [vec![401; 3], vec![429; 17]].concat());
    let text = metrics(&server.admin_url()).await;
    assert_eq!(sum(&text, "sidecar_auth_failures_total", &[("reason", "wrong")]), 20.0);
    assert_eq!(sum(&text, "sidecar_rejected_total", &[("reason", "authFailures")]), 17.0);
    let log = server.log();
    let told = |what: &str| log.matches(what).count();
    assert_eq!((told("\"auth.failure\""), told("\"auth.throttled\"")), (3, 1), "{log}");
    assert!(told("refused") <= 4 && log.contains("limits.authFailures"), "{log}");
}

/// Where `secrets` turn up among `places`.
fn found<'a>(places: &[(&'a str, String)], secrets: &[&str]) -> Vec<&'a str> {
    let tells = |text: &str| secrets.iter().any(|secret| text.contains(secret));
    places.iter().filter(|(_, text)| tells(text)).map(|(place, _)| *place).collect()
}

async fn tells_nothing(server: &Server, right: &str, wrong: &str) {
    let mut client = Client::connect_to(server.url(), right).await;
    client.call("initialize", json!({ "clientName": "e2e" })).await.unwrap();
    client.notify("initialized", json!({})).await;
    let pid = server.pid();
    let look = format!(
        "env; cat /proc/{pid}/environ /proc/{pid}/cmdline {}/*; ps axww",
        server.scratch().state().display()
    );
    let env = json!({ "PATH": "/usr/bin:/bin" });
    let policy = json!({ "inherit": "all", "ignoreDefaultExcludes": true });
    let seen = client
        .run(json!({ "processId": "p", "argv": ["sh", "-c", look], "cwd": server.workspace(), "env": env, "envPolicy": policy }))
        .await;
    let mut refusals = String::new();
    for header in [format!("Bearer {wrong}"), format!("Basic {right}"), right.to_owned()] {
        let upgrade = [&UPGRADE[..], &[("Authorization", header.as_str())]].concat();
        let answer = http::get(server.url(), "/", &upgrade).await;
        assert_eq!(answer.status, 401);
        refusals += &(answer.head + &answer.body);
    }
    let read = |name: &str| {
        String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default()).into_owned()
    };
    let places = [
        ("stdout of a launch", seen.stdout),
        ("stderr of a launch", seen.stderr),
        ("a refusal", refusals),
        ("the metrics", metrics(&server.admin_url()).await),
        ("the command line", read("cmdline")),
        ("the environment", read("environ")),
        ("logs and audit trail", server.log()),
    ];
    assert!(places[6].1.contains("auth.failure") && places[6].1.contains("session.open"), "the control");
    let (_, signature) = right.rsplit_once('.').unwrap_or(("", right));
    assert_eq!(found(&places, &[right, wrong, signature, SECRET]), [""; 0]);
    assert_eq!(found(&[("itself", format!("Bearer {right}"))], &[right]), ["itself"]);
}

#[tokio::test]
async fn a_token_is_told_nowhere() {
    let server = Server::builder().arg("--log-filter").arg("trace").start();
    tells_nothing(&server, TOKEN, GUESS).await;
}

#[tokio::test]
async fn a_signed_token_is_told_nowhere() {
    let server = with_signed_tokens("logFilter = \"trace\"\n");
    tells_nothing(&server, &signed(SECRET, 600), &signed(GUESS, 600)).await;
}
