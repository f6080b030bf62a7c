//! The built binary with its embedded sidecar: real commands under the real sandbox.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::{Output, Stdio};

use agent_client::protocol::process::Signal;
use agent_client::{Config, Environment, Event, Events, ExecBackend as _, Launch};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::Command;

/// A workspace, and beside it a directory that is none of the sandbox's. Below /var/tmp, which no profile grants, as it
/// does /tmp.
struct Place {
    workspace: TempDir,
    outside: TempDir,
}

impl Place {
    fn new() -> Self {
        let make = || tempfile::Builder::new().prefix("agent-client-").tempdir_in("/var/tmp").unwrap();
        Self { workspace: make(), outside: make() }
    }

    fn exec(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_agent-client"));
        command
            .arg("exec")
            .args(arguments)
            .current_dir(&self.workspace)
            .env_clear()
            .env("HOME", self.workspace.path())
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("NOT_FOR_LAUNCHES", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    async fn run(&self, arguments: &[&str]) -> Output {
        self.exec(arguments).output().await.unwrap()
    }

    async fn sh(&self, script: &str) -> Output {
        self.run(&["--", "sh", "-c", script]).await
    }
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or_else(|| panic!("{output:?}"))
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test]
async fn exit_codes() {
    let place = Place::new();
    std::fs::write(place.workspace.path().join("data"), "no program").unwrap();
    for (script, expected) in [("true", 0), ("exit 3", 3), ("kill -9 $$", 137), ("kill -TERM $$", 143)] {
        let output = place.sh(script).await;
        assert_eq!(code(&output), expected, "{script}: {output:?}");
        assert_eq!(stderr(&output), "", "{script}");
    }
    for (argv, expected, named) in [
        (&["no-such-program"][..], 127, "no-such-program"),
        (&["./data"], 126, "data"),
        (&["--cwd", "missing", "true"], 125, "missing"),
        (&["--cwd", "/usr", "true"], 125, "/usr"),
        (&["--profile", "nonsense", "true"], 125, "nonsense"),
    ] {
        let output = place.run(argv).await;
        assert_eq!(code(&output), expected, "{argv:?}: {output:?}");
        assert!(
            stderr(&output).starts_with("agent-client: ") && stderr(&output).contains(named),
            "{output:?}"
        );
        assert!(output.stdout.is_empty());
    }
}

#[tokio::test]
async fn the_streams_are_apart_and_byte_clean() {
    let place = Place::new();
    // Each byte value, in an order that no text has, 1 MiB of it.
    let bytes: Vec<u8> = (0..1u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    std::fs::write(place.workspace.path().join("bytes"), &bytes).unwrap();
    let output = place.sh("echo complaint >&2; cat bytes").await;
    assert_eq!(code(&output), 0);
    assert!(output.stdout == bytes, "{} bytes came", output.stdout.len());
    assert_eq!(output.stderr, b"complaint\n");
}

#[tokio::test]
async fn writes_and_reads_outside_are_denied_and_inside_are_not() {
    let place = Place::new();
    let write = |dir: &Path| format!("echo x > '{}/file'", dir.display());
    let read = |dir: &Path| format!("cat '{}/secret'", dir.display());
    for dir in [place.workspace.path(), place.outside.path()] {
        std::fs::write(dir.join("secret"), "s3cret").unwrap();
        // Without the sandbox, both work in both.
        let status =
            Command::new("sh").arg("-c").arg(format!("{} && {}", write(dir), read(dir))).output().await;
        assert!(status.unwrap().status.success());
        std::fs::remove_file(dir.join("file")).unwrap();
    }

    let output =
        place.sh(&format!("{} && {}", write(place.workspace.path()), read(place.workspace.path()))).await;
    assert_eq!((code(&output), output.stdout.as_slice()), (0, &b"s3cret"[..]), "{output:?}");
    assert!(place.workspace.path().join("file").exists());

    let output = place.sh(&write(place.outside.path())).await;
    assert_ne!(code(&output), 0);
    assert!(!place.outside.path().join("file").exists());
    assert!(stderr(&output).contains("the sandbox may have been in the way"), "{output:?}");

    let output = place.sh(&read(place.outside.path())).await;
    assert_ne!(code(&output), 0);
    assert!(output.stdout.is_empty());

    let readonly = ["--profile", "readOnly", "--", "sh", "-c", &write(place.workspace.path())];
    assert_ne!(code(&place.run(&readonly).await), 0, "readOnly must not write inside either");
}

#[tokio::test]
async fn the_receipt_is_shown() {
    let place = Place::new();
    let output = place.run(&["-v", "true"]).await;
    assert_eq!(code(&output), 0);
    assert!(output.stdout.is_empty());
    let stderr = stderr(&output);
    assert!(
        stderr.contains("sandbox: status=") && stderr.contains("profile=workspaceWriteNoNetwork"),
        "{stderr}"
    );
    assert!(stderr.contains("seccomp=full") && stderr.contains("fsWrite="), "{stderr}");
}

#[tokio::test]
async fn the_environment_is_what_was_asked_for() {
    let place = Place::new();
    std::fs::write(
        place.workspace.path().join("agent-client.toml"),
        "[env]\nFROM_FILE = 'a b'\nBOTH = 'file'",
    )
    .unwrap();
    let output = place.run(&["-e", "BOTH=flag", "env"]).await;
    let env = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = env.lines().collect();
    for expected in ["FROM_FILE=a b", "BOTH=flag"] {
        assert!(lines.contains(&expected), "{env}");
    }
    assert!(lines.iter().any(|l| l.starts_with("PATH=")), "{env}");
    assert!(!env.contains("NOT_FOR_LAUNCHES"), "{env}");
}

#[tokio::test]
async fn the_cwd_is_the_same_one() {
    let place = Place::new();
    std::fs::create_dir(place.workspace.path().join("a b")).unwrap();
    let output = place.run(&["--cwd", "a b", "pwd"]).await;
    let expected = place.workspace.path().canonicalize().unwrap().join("a b");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim_end(), expected.to_str().unwrap(), "{output:?}");
}

#[tokio::test]
async fn a_terminal_has_a_size_and_a_type() {
    let place = Place::new();
    let output = place.exec(&["-t", "--", "sh", "-c", "test -t 0 && test -t 1 && stty size && echo $TERM"]);
    let output = { output }.env("TERM", "vt100").output().await.unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "24 80\r\nvt100\r\n", "{output:?}");
}

#[tokio::test]
async fn a_dialogue_over_pipes() {
    let place = Place::new();
    let mut child = place
        .exec(&["-i", "--", "sh", "-c", "while read x; do echo \"got $x\"; [ $x = b ] && exit 4; done"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for word in ["a", "b"] {
        stdin.write_all(format!("{word}\n").as_bytes()).await.unwrap();
        assert_eq!(lines.next_line().await.unwrap().unwrap(), format!("got {word}"));
    }
    // The command ends although this stdin is still open.
    assert_eq!(child.wait().await.unwrap().code(), Some(4));
}

/// 3 MiB through `cat`, and the end of it.
#[tokio::test]
async fn the_end_of_stdin_ends_the_command() {
    let place = Place::new();
    let mut child = place.exec(&["-i", "--", "cat"]).stdin(Stdio::piped()).spawn().unwrap();
    let sent: Vec<u8> = (0..3u32 << 20).map(|i| (i % 251) as u8).collect();
    let mut stdin = child.stdin.take().unwrap();
    let copy = sent.clone();
    let writer = tokio::spawn(async move { stdin.write_all(&copy).await });
    let output = child.wait_with_output().await.unwrap();
    writer.await.unwrap().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stdout == sent, "{} bytes", output.stdout.len());
}

#[tokio::test]
async fn nothing_outlives_the_client() {
    let place = Place::new();
    // A FIFO has an end of file once its last writer is gone: that is when the launches are.
    let fifo = place.workspace.path().join("alive");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).unwrap();
    let reader = tokio::task::spawn_blocking(move || std::fs::read(fifo).unwrap());
    let script = "exec 3>alive; setsid sleep 600 & sleep 600 & echo started; exec >&- 2>&-; wait";
    let mut child = place.exec(&["--", "sh", "-c", script]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next_line().await.unwrap().unwrap(), "started");
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(child.wait().await.unwrap().code(), Some(143));
    assert!(reader.await.unwrap().is_empty());
}

/// All output and the exit code; the reason instead, where the process could not be followed.
async fn follow(mut events: Events) -> Result<(String, i32), String> {
    let (mut output, mut exit_code) = (Vec::new(), None);
    while let Some(event) = events.recv().await {
        match event {
            Event::Output { bytes, .. } => output.extend(bytes),
            Event::Exited(exit) => exit_code = Some(exit.exit_code),
            Event::Closed => {}
            Event::Failed { reason } => return Err(reason),
        }
    }
    Ok((String::from_utf8(output).unwrap(), exit_code.unwrap()))
}

/// In a runtime of one thread, as some agents have.
#[tokio::test]
async fn the_library_alone() {
    let place = Place::new();
    let cwd = place.workspace.path();
    let environment = Environment::connect(&Config::resolve(&[], cwd).unwrap()).await.unwrap();
    assert!(environment.info().unwrap().sidecar.is_some());

    let mut cat = environment.start(Launch { pipe_stdin: true, ..Launch::new(["cat"], cwd) }).await.unwrap();
    assert_ne!(cat.process.enforcement().unwrap().status, "none");
    cat.process.write(b"there and back").await.unwrap();
    assert!(
        matches!(cat.events.recv().await, Some(Event::Output { bytes, seq: 1, .. }) if bytes == b"there and back")
    );
    cat.process.signal(Signal::Interrupt).await.unwrap();
    assert_eq!(follow(cat.events).await, Ok((String::new(), 130)));
    assert!(!cat.process.terminate().await.unwrap(), "it was not running any more");
    assert!(cat.process.write(b"x").await.is_err());

    // Many at once, each with its own output, received only after all of them were started.
    let mut started = Vec::new();
    for i in 0..20 {
        started.push(environment.start(Launch::new(["echo".to_owned(), i.to_string()], cwd)).await.unwrap());
    }
    for (i, echo) in started.into_iter().enumerate() {
        assert_eq!(follow(echo.events).await, Ok((format!("{i}\n"), 0)));
    }

    let sleep = environment.start(Launch::new(["sleep", "600"], cwd)).await.unwrap();
    assert!(sleep.process.terminate().await.unwrap());
    assert_eq!(follow(sleep.events).await.unwrap().1, 143);

    let left = environment.start(Launch::new(["sleep", "600"], cwd)).await.unwrap();
    environment.close().await;
    assert!(follow(left.events).await.unwrap_err().contains("this client closed it"));
}
