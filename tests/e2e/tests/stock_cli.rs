//! The stock CLI, unchanged, with a scripted model: everything that it starts runs here, under the sandbox.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::Path;
use std::process::Command;

use e2e::client::decode;
use e2e::stock::{self, LONG, PATCH, SHORT, assert_exit, text};
use e2e::{PNG, Server};
use serde_json::{Value, json};

#[test]
fn danger_full_access() {
    writable("danger-full-access", &Server::builder().insecure().start());
}

#[test]
fn danger_full_access_with_a_token() {
    writable("danger-full-access", &Server::start());
}

#[test]
fn workspace_write() {
    writable("workspace-write", &Server::builder().insecure().start());
}

#[test]
fn workspace_write_with_a_token() {
    writable("workspace-write", &Server::start());
}

#[test]
fn read_only() {
    unwritable("read-only", &Server::builder().insecure().start());
}

#[test]
fn read_only_with_a_token() {
    unwritable("read-only", &Server::start());
}

/// The modes in which the workspace can be written.
fn writable(mode: &str, server: &Server) {
    let outputs = journey(mode, server);
    assert!(text(&outputs[5]).contains("Success. Updated the following files"), "{}", outputs[5]);
    assert_exit(&outputs[6], 0, "NEW\nHELLO-PATCHED\n");
    assert_exit(&outputs[8], 0, "inside\n");
    let read = |name: &str| fs::read_to_string(server.workspace().join(name)).unwrap();
    assert_eq!(read("new.txt"), "NEW\n");
    assert_eq!(read("hello.txt"), "HELLO-PATCHED\n");
    assert_eq!(read("inside.txt"), "inside\n");
}

/// The mode in which nothing can be written. The CLI itself refuses the patch; the sidecar refuses the command.
fn unwritable(mode: &str, server: &Server) {
    let outputs = journey(mode, server);
    assert!(text(&outputs[5]).contains("patch rejected"), "{}", outputs[5]);
    assert_exit(&outputs[6], 1, "HELLO-FILE\n");
    assert_exit(&outputs[8], 1, "ermission denied");
    assert!(!server.workspace().join("new.txt").exists());
    assert!(!server.workspace().join("inside.txt").exists());
    without_sandbox("echo inside > inside.txt", server);
}

/// Runs every turn once and checks what is the same in all modes.
fn journey(mode: &str, server: &Server) -> Vec<Value> {
    let workspace = server.workspace();
    fs::write(workspace.join("hello.txt"), "HELLO-FILE\n").unwrap();
    fs::write(workspace.join("red.png"), decode(&json!(PNG))).unwrap();
    let escape = format!("echo escaped > {}/escaped.txt", server.scratch().outside().display());
    let turns = json!([
        ["exec_command", {"cmd": "echo out; echo err >&2; exit 3", "yield_time_ms": LONG}],
        ["exec_command", {"cmd": "printf 'name? '; read n; echo \"hello $n\"; exit 4", "tty": true, "yield_time_ms": SHORT}],
        ["write_stdin", {"session_id": "$SID", "chars": "bob\n", "yield_time_ms": LONG}],
        ["exec_command", {"cmd": "sleep 600", "tty": true, "yield_time_ms": SHORT}],
        ["write_stdin", {"session_id": "$SID", "chars": "\u{3}", "yield_time_ms": LONG}],
        ["exec_command", {"cmd": PATCH, "yield_time_ms": LONG}],
        ["exec_command", {"cmd": "cat new.txt hello.txt", "yield_time_ms": LONG}],
        ["view_image", {"path": workspace.join("red.png")}],
        ["exec_command", {"cmd": "echo inside > inside.txt && cat inside.txt", "yield_time_ms": LONG}],
        ["exec_command", {"cmd": escape, "yield_time_ms": LONG}],
        ["exec_command", {"cmd": "seq 1 200000", "yield_time_ms": LONG}],
    ]);
    let outputs = stock::over_url(mode, server, &turns);

    assert_exit(&outputs[0], 3, "out\n");
    assert_exit(&outputs[0], 3, "err\n");
    assert!(text(&outputs[1]).contains("Process running with session ID"), "{}", outputs[1]);
    assert!(format!("{}{}", text(&outputs[1]), text(&outputs[2])).contains("name? "), "{}", outputs[1]);
    assert_exit(&outputs[2], 4, "hello bob\r\n");
    assert!(text(&outputs[3]).contains("Process running with session ID"), "{}", outputs[3]);
    assert_exit(&outputs[4], 130, "");
    assert_eq!(outputs[7][0]["image_url"], format!("data:image/png;base64,{PNG}"), "{}", outputs[7]);
    assert_exit(&outputs[9], 1, "ermission denied");
    assert!(!server.scratch().outside().join("escaped.txt").exists());
    without_sandbox(&escape, server);
    // The CLI shows the head and the tail, and counts tokens of four bytes over all that it got.
    let bytes: usize = (1..=200_000_u32).map(|n| n.to_string().len() + 1).sum();
    assert_exit(&outputs[10], 0, &format!("Original token count: {}\n", bytes.div_ceil(4)));
    assert!(text(&outputs[10]).ends_with("\n199999\n200000\n"), "the last lines are there");
    outputs
}

/// The positive control of a refusal: the same command does its work outside the sandbox.
fn without_sandbox(script: &str, server: &Server) {
    let run = |dir: &Path| Command::new("sh").args(["-c", script]).current_dir(dir).status().unwrap();
    assert!(run(&server.workspace()).success(), "{script}");
}
