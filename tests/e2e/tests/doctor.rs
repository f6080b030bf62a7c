//! `agent-client doctor` finds each fault where it is, and `ps` and `kill` reach what the caller's other sessions run.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::ffi::OsStr;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use e2e::server::clean_environment;
use e2e::{Scratch, Server, found, programs};
use serde_json::Value;

const WRAPPER: &str = env!("CARGO_BIN_EXE_without_landlock");

fn client(scratch: &Scratch, dir: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(programs::agent_client());
    clean_environment(&mut command, scratch);
    command.args(words).current_dir(dir).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The flags that reach the server.
fn flags(server: &Server) -> Vec<String> {
    let token = server.scratch().state().join("e2e-token");
    ["--sidecar-url", server.url(), "--token-file", token.to_str().unwrap()].map(str::to_owned).to_vec()
}

/// Where the examination ends, and what it says there.
fn fault(scratch: &Scratch, dir: &Path, flags: &[String]) -> Option<(String, String)> {
    let words: Vec<&str> = ["doctor", "--json"].into_iter().chain(flags.iter().map(String::as_str)).collect();
    let output = client(scratch, dir, &words).output().unwrap();
    let steps: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
    let failed = steps.as_array().unwrap().iter().find(|step| step["ok"] == false);
    assert_eq!(output.status.code(), Some(if failed.is_some() { 1 } else { 0 }), "{steps}");
    let step = failed?;
    let fix = step["fix"].as_str().expect("each fault has its fix");
    Some((
        step["check"].as_str().unwrap().to_owned(),
        format!("{} fix: {fix}", step["detail"].as_str().unwrap()),
    ))
}

#[track_caller]
fn assert_fault(found: Option<(String, String)>, check: &str, parts: &[&str]) {
    let (at, text) = found.expect("a fault");
    assert_eq!(at, check, "{text}");
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
}

#[test]
fn nothing_is_found_where_nothing_is_wrong() {
    let server = Server::start();
    assert_eq!(fault(server.scratch(), &server.workspace(), &flags(&server)), None);
    assert_eq!(fault(&Scratch::new(), &server.workspace(), &[]), None, "embedded");
}

#[test]
fn a_wrong_url() {
    let server = Server::start();
    let look = |url: &str| {
        let mut flags = flags(&server);
        flags[1] = url.to_owned();
        fault(server.scratch(), &server.workspace(), &flags)
    };
    assert_fault(look("http://127.0.0.1:1"), "config", &["--sidecar-url", "ws://HOST:PORT"]);
    assert_fault(look("ws://no-such-host.invalid:1"), "reachability", &["no-such-host.invalid"]);

    // Something else listens there.
    for (greeting, part) in [("SSH-2.0-x\r\n", "no sandbox-sidecar"), ("\x15\x03\x01", "speaks TLS")] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("ws://{}", listener.local_addr().unwrap());
        let other = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(greeting.as_bytes()).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let _ = stream.read_to_end(&mut Vec::new());
        });
        assert_fault(look(&url), "reachability", &[part]);
        other.join().unwrap();
    }
}

#[test]
fn nobody_listens() {
    let server = Server::start();
    let mut flags = flags(&server);
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    flags[1] = format!("ws://127.0.0.1:{port}");
    let found = fault(server.scratch(), &server.workspace(), &flags);
    assert_fault(found, "reachability", &["refused", "sandbox-sidecar serve", &port.to_string()]);
}

#[test]
fn tls_to_a_plain_port() {
    let server = Server::start();
    let mut flags = flags(&server);
    flags[1] = server.url().replace("ws://", "wss://");
    let (_, text) = fault(server.scratch(), &server.workspace(), &flags).expect("a fault");
    assert!(
        text.contains("plain") && text.contains(&format!("set sidecar_url to {}", server.url())),
        "{text}"
    );
}

#[test]
fn a_wrong_token() {
    let server = Server::start();
    let wrong = server.scratch().state().join("wrong");
    fs::write(&wrong, "not-the-token\n").unwrap();
    let mut flags = flags(&server);
    flags[3] = wrong.to_str().unwrap().to_owned();
    let found = fault(server.scratch(), &server.workspace(), &flags);
    assert_fault(found, "auth", &[wrong.to_str().unwrap(), "set token_file"]);
    let found = fault(server.scratch(), &server.workspace(), &flags[..2]);
    assert_fault(found, "auth", &["none was sent", "set token_file"]);
}

#[test]
fn an_old_kernel() {
    let server = Server::builder().under(&[OsStr::new(WRAPPER), OsStr::new("ENOSYS")]).start();
    let found = fault(server.scratch(), &server.workspace(), &flags(&server));
    assert_fault(found, "launch", &["ENOSYS", "Linux 5.13", "sandbox-sidecar check"]);
}

#[test]
fn the_workspace_root_is_missing() {
    let server = Server::start();
    let elsewhere = server.scratch().base().join("here");
    fs::create_dir(&elsewhere).unwrap();
    fs::remove_dir(server.workspace()).unwrap();
    let found = fault(server.scratch(), &elsewhere, &flags(&server));
    assert_fault(found, "mapping", &[server.workspace().to_str().unwrap(), "missing", "workspace_root"]);
}

#[test]
fn the_current_directory_is_outside_of_the_root() {
    let server = Server::start();
    let (root, dir) = (server.scratch().base().join("here"), server.scratch().outside());
    fs::create_dir(&root).unwrap();
    let mut flags = flags(&server);
    flags.extend(["--local-root".to_owned(), root.to_str().unwrap().to_owned()]);
    let found = fault(server.scratch(), &dir, &flags);
    assert_fault(found, "mapping", &[dir.to_str().unwrap(), root.to_str().unwrap(), "local_root"]);
}

fn listed(server: &Server, flags: &[String]) -> Vec<Value> {
    let words: Vec<&str> = ["ps", "--json"].into_iter().chain(flags.iter().map(String::as_str)).collect();
    let output = client(server.scratch(), &server.workspace(), &words).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn what_another_session_runs_is_listed_and_ended() {
    let server = Server::start();
    let flags = flags(&server);
    let with = |words: &[&str]| {
        let words: Vec<&str> = words[..1]
            .iter()
            .copied()
            .chain(flags.iter().map(String::as_str))
            .chain(words[1..].iter().copied())
            .collect();
        client(server.scratch(), &server.workspace(), &words)
    };
    let end = |output: Output| output.status.code();
    let running = with(&["exec", "--", "sleep", "1000"]).spawn().unwrap();
    let pid = found("the process", || {
        let processes = listed(&server, &flags);
        let process =
            processes.into_iter().find(|process| process["argv"] == serde_json::json!(["sleep", "1000"]))?;
        process["pid"].as_i64()
    });

    // Another caller sees nothing of it, and reaches nothing.
    let other = server.scratch().state().join("other");
    fs::write(&other, "other-0123456789abcdef0123456789abcdef\n").unwrap();
    let mut file =
        fs::OpenOptions::new().append(true).open(server.scratch().state().join("e2e-token")).unwrap();
    file.write_all(b"other:other-0123456789abcdef0123456789abcdef\n").unwrap();
    let own = server.scratch().state().join("own");
    fs::write(&own, e2e::server::TOKEN).unwrap();
    let as_caller = |token: &Path| {
        let token = token.to_str().unwrap().to_owned();
        vec![flags[0].clone(), flags[1].clone(), flags[2].clone(), token]
    };
    assert!(listed(&server, &as_caller(&other)).is_empty());
    assert_eq!(listed(&server, &as_caller(&own)).len(), 1, "the positive control");

    let kill = |token: &Path, signal: &[&str]| {
        let pid = pid.to_string();
        let flags = as_caller(token);
        let words: Vec<&str> = ["kill", &pid]
            .into_iter()
            .chain(signal.iter().copied())
            .chain(flags.iter().map(String::as_str))
            .collect();
        client(server.scratch(), &server.workspace(), &words).output().unwrap()
    };
    assert_eq!(end(kill(&other, &[])), Some(1));
    assert_eq!(listed(&server, &as_caller(&own))[0]["state"], "running");
    assert_eq!(end(kill(&own, &[])), Some(0));
    assert_eq!(end(running.wait_with_output().unwrap()), Some(143));
}
