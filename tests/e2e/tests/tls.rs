//! `wss://`: the sidecar shows its certificate, the client looks at it, and each tells the other where one of them speaks no
//! TLS.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::process::{Command, Output, Stdio};

use e2e::server::clean_environment;
use e2e::{Scratch, Server, http, programs};
use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

/// One that signs certificates.
struct Authority(TempDir);

impl Authority {
    fn new() -> Self {
        let authority = Self(tempfile::tempdir_in("/var/tmp").unwrap());
        openssl(&[
            "-keyout",
            &authority.file("key.pem"),
            "-out",
            &authority.file("cert.pem"),
            "-subj",
            "/CN=authority",
        ]);
        authority
    }

    fn file(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// Puts a certificate for this name, such as `IP:127.0.0.1`, and its key, where the server looks for them.
    fn certify(&self, name: &str, scratch: &Scratch) {
        let file = |name: &str| scratch.state().join(name).display().to_string();
        let name = format!("subjectAltName={name}");
        openssl(
            &[
                &["-CA", &self.file("cert.pem"), "-CAkey", &self.file("key.pem"), "-subj", "/CN=sidecar"][..],
                &["-keyout", &file("key.pem"), "-out", &file("cert.pem"), "-addext", &name],
                &["-addext", "basicConstraints=critical,CA:FALSE"],
            ]
            .concat(),
        );
    }
}

/// Makes a key and a certificate.
fn openssl(words: &[&str]) {
    let mut command = Command::new("openssl");
    command.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]);
    let output = command.args(words).output().expect("openssl (scripts/setup.sh tools)");
    assert!(output.status.success(), "{output:?}");
}

fn config(scratch: &Scratch) -> String {
    let file = |name: &str| scratch.state().join(name);
    format!("tls.certFile = {:?}\ntls.keyFile = {:?}\n", file("cert.pem"), file("key.pem"))
}

fn start(authority: &Authority, name: &str) -> Server {
    let scratch = Scratch::new();
    authority.certify(name, &scratch);
    let config = config(&scratch);
    let server = Server::builder().scratch(scratch).config(&config).tls().start();
    assert!(server.url().starts_with("wss://"), "{}", server.url());
    server
}

/// `agent-client WORDS`, with the certificates of one authority trusted.
fn client(server: &Server, trusted: &Authority, url: &str, words: &[&str]) -> Output {
    let mut command = Command::new(programs::agent_client());
    clean_environment(&mut command, server.scratch());
    command.env("SSL_CERT_FILE", trusted.file("cert.pem")).env("AGENT_CLIENT_SIDECAR_URL", url);
    command.env("AGENT_CLIENT_TOKEN_FILE", server.scratch().state().join("e2e-token"));
    command.args(words).current_dir(server.workspace()).stdin(Stdio::null());
    command.output().unwrap()
}

const ECHO: [&str; 4] = ["exec", "--", "echo", "hello"];

#[track_caller]
fn opens(output: &Output) {
    assert_eq!(String::from_utf8_lossy(&output.stdout), "hello\n", "{output:?}");
}

#[track_caller]
fn refused(output: &Output, parts: &[&str]) {
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{message}");
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in {message}");
    }
}

#[test]
fn the_certificate_is_looked_at() {
    let (trusted, other) = (Authority::new(), Authority::new());
    let server = start(&trusted, "IP:127.0.0.1");
    opens(&client(&server, &trusted, server.url(), &ECHO));
    refused(&client(&server, &other, server.url(), &ECHO), &["no TLS with", "SSL_CERT_FILE"]);
    let elsewhere = start(&trusted, "DNS:elsewhere.example");
    refused(&client(&elsewhere, &trusted, elsewhere.url(), &ECHO), &["no TLS with", "name this host"]);
}

#[test]
fn another_certificate_needs_no_restart_and_a_broken_one_changes_nothing() {
    let (old, new) = (Authority::new(), Authority::new());
    let server = start(&old, "IP:127.0.0.1");
    opens(&client(&server, &old, server.url(), &ECHO));
    // A certificate whose key has not come yet.
    let key = fs::read(server.scratch().state().join("key.pem")).unwrap();
    new.certify("IP:127.0.0.1", server.scratch());
    let new_key = fs::read(server.scratch().state().join("key.pem")).unwrap();
    fs::write(server.scratch().state().join("key.pem"), key).unwrap();
    opens(&client(&server, &old, server.url(), &ECHO));
    server.wait_for_log("the last certificate stays");
    fs::write(server.scratch().state().join("key.pem"), new_key).unwrap();
    opens(&client(&server, &new, server.url(), &ECHO));
    refused(&client(&server, &old, server.url(), &ECHO), &["no TLS with"]);
}

#[test]
fn plain_to_a_tls_port_is_explained_and_so_is_the_reverse() {
    let trusted = Authority::new();
    let server = start(&trusted, "IP:127.0.0.1");
    let plain = server.url().replace("wss://", "ws://");
    refused(&client(&server, &trusted, &plain, &ECHO), &["speaks TLS", "wss://"]);
    let doctor = client(&server, &trusted, &plain, &["doctor"]);
    assert!(String::from_utf8_lossy(&doctor.stdout).contains("speaks TLS"), "{doctor:?}");
    assert_eq!(client(&server, &trusted, server.url(), &["doctor"]).status.code(), Some(0));
    let without = Server::start();
    let wss = without.url().replace("ws://", "wss://");
    refused(&client(&without, &trusted, &wss, &ECHO), &["no TLS with", "must speak TLS"]);
}

#[tokio::test]
async fn what_is_no_tls_gets_one_sentence_and_holds_no_place() {
    let trusted = Authority::new();
    let scratch = Scratch::new();
    trusted.certify("IP:127.0.0.1", &scratch);
    let config = format!("limits.handshakes = 4\nlimits.handshakeSeconds = 3600\n{}", config(&scratch));
    let server = Server::builder().scratch(scratch).config(&config).tls().start();
    let plain = server.url().replace("wss://", "ws://");
    let answer = http::get(&plain, "/livez", &[]).await;
    assert!(answer.status == 400 && answer.body.contains("wss://"), "{answer:?}");
    let address = plain.strip_prefix("ws://").unwrap();
    let mut silent = Vec::new();
    for _ in 0..40 {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    opens(&client(&server, &trusted, server.url(), &ECHO));
    let (mut first, mut byte) = (silent.remove(0), [0]);
    let ended =
        tokio::time::timeout(e2e::GIVE_UP, first.read(&mut byte)).await.expect("it has lost its place");
    assert!(!matches!(ended, Ok(1..)), "{ended:?}");
}

#[test]
fn what_is_missing_is_named() {
    let scratch = Scratch::new();
    let said = |config: &str| {
        let file = scratch.state().join("config.toml");
        fs::write(&file, config).unwrap();
        let mut command = Command::new(programs::sandbox_sidecar());
        clean_environment(&mut command, &scratch);
        command.arg("--config").arg(file).args(["--listen", "wss://127.0.0.1:0", "--workspace-root"]);
        let output = command.arg(scratch.workspace()).stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(64), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(said("adminListen = \"\"\n").contains("tls.certFile"));
    assert!(said("tls.certFile = \"/nowhere\"\n").contains("tls.keyFile"));
    let both = format!("adminListen = \"\"\n{}", config(&scratch));
    assert!(said(&both).contains("cert.pem"), "it is not there");
    fs::write(scratch.state().join("cert.pem"), "no PEM").unwrap();
    fs::write(scratch.state().join("key.pem"), "no PEM").unwrap();
    let message = said(&both);
    assert!(message.contains("tls.certFile") && message.contains("PEM"), "{message}");
}
