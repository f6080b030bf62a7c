//! The built binary against a mock: what it sends, how it ends, what it leaves of the terminal.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod mock;

use std::fs::File;
use std::process::{Output, Stdio};

use agent_client::protocol::{ErrorData, ErrorKind, RpcError};
use agent_client::transport::SidecarUrl;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mock::on_tcp;
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};

/// The binary, in an empty directory, with nothing of the developer's own config.
fn agent_client(dir: &tempfile::TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_agent-client"));
    command
        .args(arguments)
        .current_dir(dir)
        .env_clear()
        .env("HOME", dir.path())
        .env("TERM", "vt100")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

fn exec(dir: &tempfile::TempDir, url: &SidecarUrl, arguments: &[&str]) -> Command {
    let mut command = agent_client(dir, &["exec"]);
    command.env("AGENT_CLIENT_SIDECAR_URL", url.to_string());
    command.env("AGENT_CLIENT_WORKSPACE_ROOT", "/ws").args(arguments);
    command
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or_else(|| panic!("{output:?}"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// Returns once the command's first line is out: before, a signal ends agent-client and not the command.
async fn running(child: &mut Child) {
    let mut line = [0; 8];
    child.stdout.as_mut().unwrap().read_exact(&mut line).await.unwrap();
    assert_eq!(&line, b"running\n");
}

#[tokio::test]
async fn usage() {
    let dir = tempfile::tempdir().unwrap();
    for arguments in [&["--help"][..], &["exec", "--help"]] {
        let output = agent_client(&dir, arguments).output().await.unwrap();
        assert_eq!(code(&output), 0);
        assert!(text(&output.stdout).contains("Example"), "{output:?}");
    }
    for arguments in [&[][..], &["exec"], &["exec", "--env", "=x", "true"], &["nonsense"]] {
        let output = agent_client(&dir, arguments).output().await.unwrap();
        assert_eq!(code(&output), 125, "{arguments:?}: {output:?}");
        assert!(output.stdout.is_empty());
    }
}

#[tokio::test]
async fn an_unknown_key_is_told() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("agent-client.toml"), "kube = 'ns/pod'").unwrap();
    let output = agent_client(&dir, &["exec", "true"]).output().await.unwrap();
    assert_eq!(code(&output), 125);
    assert!(text(&output.stderr).contains("kube"), "{output:?}");
}

#[tokio::test]
async fn the_exit_code_is_the_commands_and_the_streams_are_apart() {
    let dir = tempfile::tempdir().unwrap();
    let (url, server) = on_tcp(|mut peer| async move {
        peer.handshake(None).await;
        let start = peer.start().await;
        assert_eq!(start.params["cwd"], "/ws");
        assert_eq!(start.params["env"], json!({ "A": "1=2" }), "no TERM without a terminal");
        assert_eq!(start.params["pipeStdin"], false);
        assert_eq!(start.params["sandbox"], json!({ "mode": "readOnly" }));
        peer.output("p1", 1, b"out\0\xff").await;
        let chunk = STANDARD.encode("err");
        peer.notify("process/output", json!({ "processId": "p1", "seq": 2, "stream": "stderr", "chunk": chunk })).await;
        let exited = json!({ "processId": "p1", "seq": 3, "exitCode": 3, "cause": "exit", "sandboxDenied": true,
            "hint": "writeRoots += \"/x\"" });
        peer.notify("process/exited", exited).await;
        peer.output("p1", 4, b" and more").await;
        peer.closed("p1", 5).await;
        peer.until_closed().await;
    })
    .await;
    let arguments = ["--profile", "readOnly", "-e", "A=1=2", "--", "cmd", "-v"];
    let output = exec(&dir, &url, &arguments).output().await.unwrap();
    assert_eq!(code(&output), 3);
    assert_eq!(output.stdout, b"out\0\xff and more");
    let stderr = text(&output.stderr);
    assert!(stderr.starts_with("err") && stderr.contains("hint: writeRoots += \"/x\""), "{stderr}");
    server.await.unwrap();
}

#[tokio::test]
async fn case_04_a_cut_is_never_success() {
    let dir = tempfile::tempdir().unwrap();
    let (url, server) = on_tcp(|mut peer| async move {
        peer.handshake(None).await;
        peer.start().await;
        peer.output("p1", 1, b"half").await;
        peer.exited("p1", 2, 0).await;
    })
    .await;
    let output = exec(&dir, &url, &["cmd"]).output().await.unwrap();
    assert_eq!(code(&output), 125);
    assert_eq!(output.stdout, b"half");
    assert!(text(&output.stderr).contains("the connection to the sidecar is lost"), "{output:?}");
    server.await.unwrap();
}

#[tokio::test]
async fn a_command_that_does_not_start_has_its_own_codes() {
    let dir = tempfile::tempdir().unwrap();
    for (kind, stage, expected) in [
        (ErrorKind::SpawnNotFound, "exec", 127),
        (ErrorKind::NotExecutable, "exec", 126),
        (ErrorKind::CwdNotFound, "cwd", 125),
    ] {
        let (url, server) = on_tcp(move |mut peer| async move {
            peer.handshake(None).await;
            let start = peer.request("process/start").await;
            let data = ErrorData { kind: Some(kind), stage: Some(stage.to_owned()), ..ErrorData::default() };
            peer.error(&start, RpcError::internal("cannot start x: why").with_data(&data)).await;
            peer.until_closed().await;
        })
        .await;
        let output = exec(&dir, &url, &["x"]).output().await.unwrap();
        assert_eq!(code(&output), expected);
        assert_eq!(text(&output.stderr), "agent-client: cannot start x: why\n");
        server.await.unwrap();
    }
}

#[tokio::test]
async fn interrupts_go_to_the_command_and_end_it_at_the_second() {
    let dir = tempfile::tempdir().unwrap();
    let (told, mut events) = tokio::sync::mpsc::channel(1);
    let (url, server) = on_tcp(|mut peer| async move {
        peer.handshake(None).await;
        peer.start().await;
        peer.output("p1", 1, b"running\n").await;
        let request = peer.request("process/signal").await;
        assert_eq!(request.params["signal"], "interrupt");
        peer.answer(&request, json!({})).await;
        told.send(()).await.unwrap();
        let request = peer.request("process/terminate").await;
        peer.answer(&request, json!({ "running": true })).await;
        peer.exited("p1", 2, 143).await;
        peer.closed("p1", 3).await;
        peer.until_closed().await;
    })
    .await;
    let mut child = exec(&dir, &url, &["cmd"]).spawn().unwrap();
    running(&mut child).await;
    signal(&child, Signal::INT);
    events.recv().await.unwrap();
    signal(&child, Signal::INT);
    assert_eq!(code(&child.wait_with_output().await.unwrap()), 143);
    server.await.unwrap();
}

#[tokio::test]
async fn a_third_interrupt_is_not_made_to_wait() {
    let dir = tempfile::tempdir().unwrap();
    let (told, mut events) = tokio::sync::mpsc::channel(1);
    let (url, _server) = on_tcp(|mut peer| async move {
        peer.handshake(None).await;
        peer.start().await;
        peer.output("p1", 1, b"running\n").await;
        peer.request("process/signal").await;
        told.send(()).await.unwrap();
        peer.request("process/terminate").await;
        told.send(()).await.unwrap();
        // Answers nothing, ends nothing, closes nothing.
        std::future::pending::<()>().await;
    })
    .await;
    let mut child = exec(&dir, &url, &["cmd"]).spawn().unwrap();
    running(&mut child).await;
    signal(&child, Signal::INT);
    for _ in 0..2 {
        events.recv().await.unwrap();
        signal(&child, Signal::INT);
    }
    let output = child.wait_with_output().await.unwrap();
    assert_eq!(code(&output), 125);
    assert!(text(&output.stderr).contains("gave up waiting"), "{output:?}");
}

#[tokio::test]
async fn a_reader_that_is_gone_ends_the_command() {
    let dir = tempfile::tempdir().unwrap();
    let (url, server) = on_tcp(|mut peer| async move {
        peer.handshake(None).await;
        peer.start().await;
        peer.output("p1", 1, b"nobody reads this").await;
        let request = peer.request("process/terminate").await;
        peer.output("p1", 2, b"nor this").await;
        peer.answer(&request, json!({ "running": true })).await;
        peer.exited("p1", 3, 143).await;
        peer.closed("p1", 4).await;
        peer.until_closed().await;
    })
    .await;
    let mut child = exec(&dir, &url, &["cmd"]).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().await.unwrap();
    assert_eq!(code(&output), 143);
    assert!(output.stderr.is_empty(), "{output:?}");
    server.await.unwrap();
}

#[tokio::test]
async fn stdin_is_passed_on_and_so_is_its_end() {
    for flags in ["-i", "-it"] {
        let dir = tempfile::tempdir().unwrap();
        let (url, server) = on_tcp(move |mut peer| async move {
            peer.handshake(None).await;
            let start = peer.start().await;
            assert_eq!(start.params["pipeStdin"], true);
            let mut written = Vec::new();
            while written != b"two\nlines" {
                let request = peer.request("process/write").await;
                written.extend(STANDARD.decode(request.params["chunk"].as_str().unwrap()).unwrap());
                peer.answer(&request, json!({ "status": "accepted", "accepted": true })).await;
            }
            let request = peer.request("process/closeStdin").await;
            assert_eq!(request.params, json!({ "processId": start.params["processId"] }));
            peer.answer(&request, json!({ "status": "accepted" })).await;
            peer.exited("p1", 1, 0).await;
            peer.closed("p1", 2).await;
            peer.until_closed().await;
        })
        .await;
        let mut child = exec(&dir, &url, &[flags, "cmd"]).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"two\nlines").await.unwrap();
        assert_eq!(code(&child.wait_with_output().await.unwrap()), 0);
        server.await.unwrap();
    }
}

/// A pseudo terminal: the user's end and the program's end.
fn terminal() -> (File, File) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    (File::from(master), slave)
}

#[tokio::test]
async fn a_terminal_is_passed_on_and_left_as_it_was() {
    // How it ends: by itself, by a signal to agent-client, by a lost connection.
    for (how, expected) in [("exit", 0), ("signal", 143), ("cut", 125)] {
        let dir = tempfile::tempdir().unwrap();
        let (told, mut events) = tokio::sync::mpsc::channel(1);
        let (go, gone) = tokio::sync::oneshot::channel::<()>();
        let (url, server) = on_tcp(move |mut peer| async move {
            peer.handshake(None).await;
            let start = peer.start().await;
            assert_eq!(start.params["tty"], true);
            assert_eq!(start.params["size"], json!({ "rows": 50, "cols": 132 }));
            assert_eq!(start.params["env"], json!({ "TERM": "vt100" }));
            // A key without a newline comes through, and so does the interrupt key: the terminal is raw.
            for key in ["x", "\u{3}"] {
                let request = peer.request("process/write").await;
                assert_eq!(request.params["chunk"], STANDARD.encode(key));
                peer.answer(&request, json!({ "status": "accepted", "accepted": true })).await;
                told.send(()).await.unwrap();
            }
            gone.await.unwrap();
            match how {
                "cut" => return,
                "signal" => {
                    let request = peer.request("process/terminate").await;
                    peer.answer(&request, json!({ "running": true })).await;
                }
                _ => {}
            }
            peer.exited("p1", 1, expected).await;
            peer.closed("p1", 2).await;
            peer.until_closed().await;
        })
        .await;
        let (mut user, slave) = terminal();
        tcsetwinsize(&slave, Winsize { ws_row: 50, ws_col: 132, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let before = tcgetattr(&slave).unwrap();
        assert!(before.local_modes.contains(LocalModes::ICANON | LocalModes::ECHO));
        let end = || Stdio::from(slave.try_clone().unwrap());
        let mut child =
            exec(&dir, &url, &["-it", "cmd"]).stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        for key in [b"x", b"\x03"] {
            std::io::Write::write_all(&mut user, key).unwrap();
            events.recv().await.unwrap();
        }
        assert!(!tcgetattr(&slave).unwrap().local_modes.intersects(LocalModes::ICANON | LocalModes::ECHO));
        if how == "signal" {
            signal(&child, Signal::TERM);
        }
        go.send(()).unwrap();
        assert_eq!(child.wait().await.unwrap().code(), Some(expected), "{how}");
        let after = tcgetattr(&slave).unwrap();
        assert_eq!(
            (after.local_modes, after.input_modes, after.output_modes),
            (before.local_modes, before.input_modes, before.output_modes),
            "{how}"
        );
        server.await.unwrap();
    }
}
