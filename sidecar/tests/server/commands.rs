//! The subcommands, by the binary itself.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sandbox_sidecar::config::ListenUrl;
use serde_json::{Value, json};

use crate::common::{Fixture, scratch};

fn sidecar(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sandbox-sidecar"));
    command.current_dir(dir).args(args);
    command
}

/// Waits for the end, off the runtime.
async fn output(mut command: Command, input: &'static str) -> Output {
    let ended = tokio::task::spawn_blocking(move || {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("started");
        let mut stdin = child.stdin.take().expect("stdin");
        // A command that reads nothing may be gone already.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        child.wait_with_output().expect("ended")
    });
    ended.await.expect("a result")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[tokio::test]
async fn run_passes_everything_through() {
    let dir = scratch();
    let script = "cat; echo err >&2; exit 7";
    let ran = output(sidecar(dir.path(), &["run", "--", "sh", "-c", script]), "in\n").await;
    assert_eq!(
        (text(&ran.stdout), text(&ran.stderr), ran.status.code()),
        ("in\n".into(), "err\n".into(), Some(7))
    );
    let ran =
        output(sidecar(dir.path(), &["run", "--tty", "--", "sh", "-c", "test -t 1 && echo yes"]), "").await;
    assert_eq!((text(&ran.stdout), ran.status.code()), ("yes\r\n".into(), Some(0)));
    let ran = output(sidecar(dir.path(), &["run", "--", "sh", "-c", "kill -9 $$"]), "").await;
    assert_eq!(ran.status.code(), Some(137));
}

/// Some programs read a pipe where there is one, and do other work where not.
#[tokio::test]
async fn run_passes_no_input_on_where_there_is_none() {
    let dir = scratch();
    let mut command = sidecar(dir.path(), &["run", "--", "sh", "-c", "readlink /proc/self/fd/0"]);
    command.stdin(Stdio::null());
    let ran = tokio::task::spawn_blocking(move || command.output()).await.expect("a result").expect("ended");
    assert_eq!((text(&ran.stdout), ran.status.code()), ("/dev/null\n".into(), Some(0)));
    let control =
        output(sidecar(dir.path(), &["run", "--", "sh", "-c", "readlink /proc/self/fd/0"]), "").await;
    assert!(text(&control.stdout).starts_with("pipe:"), "{control:?}");
}

#[tokio::test]
async fn run_tells_its_own_failures_from_the_commands() {
    let dir = scratch();
    std::fs::write(dir.path().join("data"), "no program").expect("written");
    for (args, code, words) in [
        (&["run", "--", "/no/such"][..], 127, "/no/such"),
        (&["run", "--", "./data"], 126, "data"),
        (&["run", "--profile", "nonsense", "--", "true"], 125, "nonsense"),
    ] {
        let ran = output(sidecar(dir.path(), args), "").await;
        assert_eq!(ran.status.code(), Some(code), "{args:?} {}", text(&ran.stderr));
        assert!(text(&ran.stderr).contains(words), "{args:?} {}", text(&ran.stderr));
    }
}

#[tokio::test]
async fn run_is_the_way_to_try_a_policy() {
    let dir = scratch();
    let script = ["run", "-v", "--profile", "readOnly", "--", "sh", "-c", "echo x > file"];
    let ran = output(sidecar(dir.path(), &script), "").await;
    assert!(!ran.status.success() && !dir.path().join("file").exists());
    let told = text(&ran.stderr);
    assert!(told.contains("\"profile\": \"readOnly\"") && told.contains("cause exit"), "{told}");
}

#[tokio::test]
async fn config_tells_values_and_sources() {
    let dir = scratch();
    let mut command = sidecar(dir.path(), &["config", "--json", "--listen", "stdio://"]);
    command.env("SANDBOX_SIDECAR_LIMITS_PROCESSES", "7");
    let shown = output(command, "").await;
    let shown: Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    assert_eq!(shown["listen"], json!({ "value": "stdio://", "source": "the command line" }));
    assert_eq!(
        shown["limits.processes"],
        json!({ "value": "7", "source": "SANDBOX_SIDECAR_LIMITS_PROCESSES" })
    );
    assert_eq!(shown["profile"], json!({ "value": "workspaceWriteNoNetwork", "source": "the default" }));
    let shown = output(sidecar(dir.path(), &["config", "--listen", "stdio://"]), "").await;
    assert!(text(&shown.stdout).contains("listen = stdio://  # the command line\n"));
}

#[tokio::test]
async fn explain_tells_rights_and_rules() {
    let dir = scratch();
    let args = ["explain", "--json", "--profile", "readOnly", ".", "/etc/passwd", "/run"];
    let explained = output(sidecar(dir.path(), &args), "").await;
    let answer: Value = serde_json::from_slice(&explained.stdout).expect("JSON");
    assert_eq!(answer["profile"], "readOnly");
    let access = |at: usize| answer["paths"][at]["access"].clone();
    let may =
        |read: bool, write: bool| json!({ "read": read, "list": read, "execute": read, "write": write });
    assert_eq!([access(0), access(1), access(2)], [may(true, false), may(true, false), may(false, false)]);
    assert!(answer["paths"][1]["rules"].as_array().is_some_and(|rules| !rules.is_empty()));
    let explained = output(sidecar(dir.path(), &["explain"]), "").await;
    assert!(text(&explained.stdout).contains("no rule covers it"), "{}", text(&explained.stdout));
}

#[tokio::test]
async fn install_needs_no_cp() {
    let dir = scratch();
    for destination in ["tools/", "renamed"] {
        let installed = output(sidecar(dir.path(), &["install", destination]), "").await;
        assert!(installed.status.success(), "{}", text(&installed.stderr));
    }
    for path in ["tools/sandbox-sidecar", "renamed"] {
        let path = dir.path().join(path);
        assert_eq!(path.metadata().expect("there").permissions().mode() & 0o777, 0o755);
        let version = Command::new(&path).arg("--version").output().expect("runs");
        assert!(text(&version.stdout).starts_with("sandbox-sidecar "));
    }
}

/// As an init container that is started again does beside an agent that uses what was installed.
#[tokio::test]
async fn what_is_being_installed_anew_can_be_executed_all_the_while() {
    let dir = scratch();
    let path = dir.path().join("tools/sandbox-sidecar");
    let install = || output(sidecar(dir.path(), &["install", "tools/"]), "");
    assert!(install().await.status.success());
    let over = Arc::new(AtomicBool::new(false));
    let user = std::thread::spawn({
        let over = over.clone();
        move || {
            let mut runs = 0;
            while !over.load(Ordering::Acquire) {
                let version = Command::new(&path).arg("--version").output().expect("it can be executed");
                assert!(version.status.success());
                runs += 1;
            }
            runs
        }
    });
    for _ in 0..20 {
        assert!(install().await.status.success());
    }
    over.store(true, Ordering::Release);
    assert!(user.join().expect("each run went well") > 0);
}

const HELLO: &str = "{\"id\":1,\"method\":\"initialize\",\"params\":{\"clientName\":\"x\"}}\n\n{\"id\":2,\"method\":\"nonsense\"}\n";

/// Sends [`HELLO`], waits for its last answer, and only then ends stdin: that is the end of the client, which need not get
/// the answers that it did not wait for.
fn dialogue(mut command: Command) -> (Value, ExitStatus) {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("started");
    let mut stdin = child.stdin.take().expect("stdin");
    stdin.write_all(HELLO.as_bytes()).expect("written");
    let lines = BufReader::new(child.stdout.take().expect("stdout")).lines();
    let mut answers = lines.map(|line| serde_json::from_str::<Value>(&line.expect("a line")).expect("JSON"));
    let last = answers.find(|answer| answer["id"] == 2).unwrap_or_default();
    drop(stdin);
    (last, child.wait().expect("ended"))
}

#[tokio::test]
async fn connect_joins_lines_to_each_kind_of_listener() {
    let sockets = scratch();
    let path = sockets.path().join("sock");
    let token = sockets.path().join("token");
    std::fs::write(&token, "me:0123456789012345678901234567890123456789\n").expect("written");
    let fixture = Fixture::with(|config| {
        config.listen = vec!["ws://127.0.0.1:0".parse().expect("a URL"), ListenUrl::Unix(path.clone())];
        config.auth = sandbox_sidecar::config::AuthMode::TokenFile(token.clone());
    })
    .await;
    let ws = format!("ws://{}", fixture.server.local_addrs()[0]);
    let unix = format!("unix:{}", path.display());
    let file = token.to_str().expect("UTF-8");
    for target in [&["connect", &ws, "--token-file", file][..], &["connect", &unix]] {
        let command = sidecar(sockets.path(), target);
        let (last, ended) = tokio::task::spawn_blocking(move || dialogue(command)).await.expect("a result");
        assert_eq!((&last["id"], &last["error"]["code"]), (&json!(2), &json!(-32601)), "{target:?}");
        assert!(ended.success(), "{target:?}");
    }
    let refused = output(sidecar(sockets.path(), &["connect", &ws]), HELLO).await;
    assert_eq!(refused.status.code(), Some(70));
    assert!(text(&refused.stderr).contains("401"), "{}", text(&refused.stderr));
}

#[tokio::test]
async fn every_command_has_help_with_an_example() {
    let dir = scratch();
    for command in ["serve", "check", "connect", "run", "config", "explain", "install"] {
        let help = output(sidecar(dir.path(), &[command, "--help"]), "").await;
        assert!(help.status.success() && text(&help.stdout).contains("Example: "), "{command}");
    }
}

/// A node's preflight has no token and no place for one.
#[tokio::test]
async fn check_needs_no_place_for_a_token() {
    let dir = scratch();
    let mut check = sidecar(dir.path(), &["check", "--json"]);
    check.env("SANDBOX_SIDECAR_STATE", "/proc/no-such-place");
    let report = output(check, "").await;
    assert_eq!(report.status.code(), Some(0), "{}", text(&report.stderr));
    let mut serve = sidecar(dir.path(), &["serve", "--listen", "ws://127.0.0.1:0", "--admin-listen", ""]);
    serve.env("SANDBOX_SIDECAR_STATE", "/proc/no-such-place");
    assert_eq!(output(serve, "").await.status.code(), Some(64), "the control: a server needs one");
}

/// The program itself is the prober here, so the network is tried too.
#[tokio::test]
async fn check_tries_the_network_and_tells_its_ports() {
    let dir = scratch();
    let check = |ports: &'static str| {
        let mut check = sidecar(dir.path(), &["check", "--json"]);
        check.env("SANDBOX_SIDECAR_READ_ROOTS", Path::new(env!("CARGO_BIN_EXE_sandbox-sidecar")));
        if !ports.is_empty() {
            check.env("SANDBOX_SIDECAR_NETWORK_TCP_CONNECT", ports);
        }
        output(check, "")
    };
    for (ports, network, connected) in
        [("", "open", "allowed"), ("1, 443", "connect 1 443, bind any, udp none", "denied")]
    {
        let checked = check(ports).await;
        assert_eq!(checked.status.code(), Some(0), "{}", text(&checked.stderr));
        let report: Value = serde_json::from_slice(&checked.stdout).expect("JSON");
        let profiles = report["profiles"].as_array().expect("profiles");
        for profile in profiles {
            let steps = profile["steps"].as_array().expect("steps");
            let step = steps.iter().find(|s| s["step"].as_str().is_some_and(|s| s.starts_with("connect to")));
            let open = profile["profile"] == "workspaceWrite";
            assert_eq!(step.expect("tried")["got"], if open { connected } else { "denied" }, "{profile}");
            assert_eq!(profile["network"], if open { network } else { "none" });
        }
    }
    let mut old = sidecar(dir.path(), &["check", "--max-abi", "3"]);
    old.env("SANDBOX_SIDECAR_NETWORK_TCP_CONNECT", "443");
    let old = output(old, "").await;
    assert_eq!(old.status.code(), Some(78));
    assert!(text(&old.stderr).contains("a list of TCP ports needs Landlock ABI 4"), "{}", text(&old.stderr));
    let mut explained = sidecar(dir.path(), &["explain", "--profile", "workspaceWrite"]);
    explained.env("SANDBOX_SIDECAR_NETWORK_TCP_BIND", "0");
    let explained = output(explained, "").await;
    assert!(text(&explained.stdout).contains("network connect any, bind 0, udp none\n"));
}

#[tokio::test]
async fn a_program_that_launches_can_replace_is_told_of() {
    let (workspace, elsewhere) = (scratch(), scratch());
    for (place, told) in [(&workspace, true), (&elsewhere, false)] {
        let place = place.path().to_str().expect("a path");
        let installed = output(sidecar(workspace.path(), &["install", place]), "").await;
        assert!(installed.status.success(), "{}", text(&installed.stderr));
        let mut command = Command::new(format!("{place}/sandbox-sidecar"));
        command.args(["serve", "--listen", "stdio://", "--admin-listen", "", "--audit-sink", "none"]);
        command.arg("--workspace-root").arg(workspace.path());
        let ran = output(command, "").await;
        assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
        let tells = text(&ran.stderr).contains("launches can replace this program");
        assert_eq!(tells, told, "{}", text(&ran.stderr));
    }
}
