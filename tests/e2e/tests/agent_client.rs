//! `agent-client exec`, on a server and on the embedded sidecar: as if the command ran here, under the sandbox.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use e2e::server::clean_environment;
use e2e::{Scratch, Server, programs};

/// Runs `agent-client exec` in a directory; on the server where there is one, else on an embedded sidecar.
fn exec(server: Option<&Server>, scratch: &Scratch, dir: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(programs::agent_client());
    clean_environment(&mut command, scratch);
    command.arg("exec").current_dir(dir).stdin(Stdio::null());
    if let Some(server) = server {
        command.args(["--sidecar-url", server.url()]);
        command.arg("--token-file").arg(scratch.state().join("e2e-token"));
    }
    command.args(words).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// The same journeys with and without a server.
fn both(journey: impl Fn(Option<&Server>, &Scratch)) {
    let server = Server::start();
    journey(Some(&server), server.scratch());
    journey(None, &Scratch::new());
}

#[test]
fn streams_and_the_exit_code_are_the_commands() {
    both(|server, scratch| {
        let words = ["--", "sh", "-c", "echo out; echo err >&2; exit 7"];
        let output = exec(server, scratch, &scratch.workspace(), &words);
        assert_eq!(text(&output.stdout), "out\n");
        assert_eq!(text(&output.stderr), "err\n");
        assert_eq!(output.status.code(), Some(7));

        let output = exec(server, scratch, &scratch.workspace(), &["--", "sh", "-c", "kill -9 $$"]);
        assert_eq!(output.status.code(), Some(137));
    });
}

#[test]
fn every_byte_of_a_long_output_comes() {
    both(|server, scratch| {
        let output = exec(server, scratch, &scratch.workspace(), &["--", "seq", "200000"]);
        let lines = text(&output.stdout).lines().map(|line| line.parse::<u32>().unwrap());
        assert!(lines.eq(1..=200_000));
    });
}

#[test]
fn failures_have_codes_of_their_own() {
    both(|server, scratch| {
        let run = |words: &[&str]| exec(server, scratch, &scratch.workspace(), words).status.code();
        fs::write(scratch.workspace().join("data"), "#!/bin/sh\n").unwrap();
        assert_eq!(run(&["--", "no-such-program"]), Some(127));
        assert_eq!(run(&["--", "./data"]), Some(126));
        assert_eq!(run(&["--cwd", "missing", "--", "true"]), Some(125));
        assert_eq!(run(&["--profile", "nonsense", "--", "true"]), Some(125));
        assert_eq!(run(&["--", "true"]), Some(0));
    });
    let server = Server::start();
    let scratch = server.scratch();
    let wrong = scratch.state().join("wrong");
    fs::write(&wrong, "wrong").unwrap();
    let words = ["--sidecar-url", server.url(), "--token-file", wrong.to_str().unwrap(), "--", "true"];
    let output = exec(None, scratch, &scratch.workspace(), &words);
    assert_eq!(output.status.code(), Some(125), "{}", text(&output.stderr));
}

#[test]
fn what_the_profile_does_not_grant_is_refused() {
    both(|server, scratch| {
        let dir = scratch.workspace();
        let secret = scratch.home().join(".ssh/id_demo");
        fs::create_dir_all(secret.parent().unwrap()).unwrap();
        fs::write(&secret, "secret").unwrap();
        let outside = scratch.outside().join("escaped");
        for (script, file) in [
            (format!("echo x > {}", outside.display()), outside.as_path()),
            (format!("cat {}", secret.display()), secret.as_path()),
        ] {
            let output = exec(server, scratch, &dir, &["--", "sh", "-c", &script]);
            assert_ne!(output.status.code(), Some(0), "{script}");
            assert!(text(&output.stderr).contains("ermission denied"), "{}", text(&output.stderr));
            assert!(output.stdout.is_empty(), "{script}");
            // The positive control.
            let free = Command::new("sh").args(["-c", &script]).output().unwrap();
            assert!(free.status.success(), "{script}");
            assert!(file.exists());
        }
        let output = exec(server, scratch, &dir, &["--", "sh", "-c", "echo x > inside && cat inside"]);
        assert_eq!((text(&output.stdout), output.status.code()), ("x\n", Some(0)));
        let read_only = ["--profile", "readOnly", "--", "sh", "-c", "cat inside; echo y > inside"];
        let output = exec(server, scratch, &dir, &read_only);
        assert_eq!(text(&output.stdout), "x\n");
        assert_ne!(output.status.code(), Some(0));
        assert_eq!(fs::read_to_string(dir.join("inside")).unwrap(), "x\n");
    });
}

#[test]
fn the_receipt_is_told_when_asked_for() {
    both(|server, scratch| {
        let quiet = exec(server, scratch, &scratch.workspace(), &["--", "true"]);
        assert_eq!(text(&quiet.stderr), "");
        let verbose = exec(server, scratch, &scratch.workspace(), &["-v", "--", "true"]);
        let stderr = text(&verbose.stderr);
        assert!(stderr.contains("workspaceWriteNoNetwork"), "{stderr}");
        assert!(stderr.contains("fsWrite=full"), "{stderr}");
        assert!(verbose.stdout.is_empty());
    });
}

#[test]
fn the_local_directory_is_mapped_into_the_workspace() {
    let server = Server::start();
    let scratch = server.scratch();
    let local = scratch.base().join("local copy");
    for dir in [local.join("a b"), server.workspace().join("a b")] {
        fs::create_dir_all(dir).unwrap();
    }
    let root = ["--local-root", local.to_str().unwrap()];
    let output = exec(Some(&server), scratch, &local.join("a b"), &[&root[..], &["--", "pwd"]].concat());
    assert_eq!(text(&output.stdout).trim_end(), server.workspace().join("a b").to_str().unwrap());

    let output = exec(Some(&server), scratch, &scratch.outside(), &[&root[..], &["--", "pwd"]].concat());
    assert_eq!(output.status.code(), Some(125), "a directory outside the local root is never guessed at");
    assert!(text(&output.stderr).contains(local.to_str().unwrap()), "{}", text(&output.stderr));
}
