//! Connections that are no WebSocket: a unix socket, and `kubectl exec`, for which a fake kubectl stands in.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use e2e::server::clean_environment;
use e2e::{Mcp, Scratch, Server, alive, programs, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

/// A server that listens on a unix socket too, and the socket's path.
fn with_socket() -> (Server, PathBuf) {
    let scratch = Scratch::new();
    let socket = scratch.state().join("api.sock");
    let url = format!("unix://{}", socket.display());
    (Server::builder().scratch(scratch).arg("--listen").arg(url).start(), socket)
}

/// A fake kubectl: it runs here what it is asked to run in the pod, and keeps its arguments and its pid.
fn fake_kubectl(scratch: &Scratch) -> PathBuf {
    let file = scratch.state().join("fake-kubectl");
    let script = format!(
        "#!/bin/sh\n\
         echo \"$@\" >> {log}.args\necho $$ >> {log}.pids\n\
         while [ \"$1\" != -- ]; do shift; done\n\
         [ \"$2\" = sandbox-sidecar ] || exit 3\n\
         shift 2\nexec {sidecar} \"$@\"\n",
        log = file.display(),
        sidecar = programs::sandbox_sidecar().display(),
    );
    fs::write(&file, script).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    file
}

/// A fake kubectl that leads to a server on its own stdin and stdout, and keeps the pid of that.
fn to_stdio(scratch: &Scratch) -> PathBuf {
    let file = scratch.state().join("fake-kubectl-stdio");
    let script = format!(
        "#!/bin/sh\n\
         echo $$ >> {log}.pids\n\
         exec {sidecar} serve --listen stdio:// --admin-listen '' --audit-sink none --workspace-root {workspace}\n",
        log = file.display(),
        sidecar = programs::sandbox_sidecar().display(),
        workspace = scratch.workspace().display(),
    );
    fs::write(&file, script).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    file
}

/// Over stdio; the client's own tests cut a WebSocket.
#[tokio::test]
async fn case_04_a_server_killed_midway_is_never_success() {
    let scratch = Scratch::new();
    let kubectl = to_stdio(&scratch);
    let mut command = Command::new(programs::agent_client());
    clean_environment(&mut command, &scratch);
    command.arg("exec").args(pod(&kubectl)).args(["--", "sh", "-c", "echo half; sleep 600.0401; echo whole"]);
    command
        .current_dir(scratch.workspace())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "half\n");
    let pids = fs::read_to_string(format!("{}.pids", kubectl.display())).unwrap();
    kill(Pid::from_raw(pids.trim().parse().unwrap()), Signal::SIGKILL).unwrap();
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), rest.as_str()), (Some(125), ""), "{stderr}");
    assert!(!stderr.is_empty(), "it says why");
    until("nothing is left of the command", || alive("600.0401") == 0).await;
}

/// 300,000 bytes, the first of them written a byte at a time.
#[test]
fn case_09_characters_are_never_split() {
    const SCRIPT: &str = "i=0; while [ $i -lt 100 ]; do printf '\\342'; printf '\\230'; printf '\\225'; i=$((i+1)); done; \
                          head -c 299700 /dev/zero | sed 's/\\x00\\x00\\x00/\u{2615}/g'";
    let server = Server::start();
    let mut over_stdio = Command::new(programs::agent_client());
    clean_environment(&mut over_stdio, server.scratch());
    over_stdio.arg("mcp").args(pod(&to_stdio(server.scratch())));
    over_stdio.arg("--local-root").arg(server.workspace());
    for mut mcp in [Mcp::start::<&str>(&server, &[]), Mcp::spawn(over_stdio)] {
        let limits = json!({ "yield_time_ms": 120_000, "max_output_tokens": 100_000 });
        let mut arguments = limits.clone();
        arguments["cmd"] = json!(SCRIPT);
        let mut window = mcp.done("exec_command", arguments);
        let mut output = window["output"].as_str().unwrap().to_owned();
        while let Some(session) = window["session_id"].as_u64() {
            let mut arguments = limits.clone();
            arguments["session_id"] = json!(session);
            window = mcp.done("write_stdin", arguments);
            output += window["output"].as_str().unwrap();
        }
        assert_eq!(output.chars().filter(|c| *c == '\u{2615}').count(), 100_000);
        assert!(!output.contains('\u{fffd}'));
        assert_eq!(window["exit_code"], 0);
    }
}

fn exec(server: &Server, way: &[&str], script: &str) -> Command {
    let mut command = Command::new(programs::agent_client());
    clean_environment(&mut command, server.scratch());
    command.arg("exec").args(way).args(["--", "sh", "-c", script]);
    command.current_dir(server.workspace()).stdin(Stdio::null());
    command
}

fn kube<'a>(kubectl: &'a Path, target: &'a str) -> Vec<&'a str> {
    [&pod(kubectl)[..], &["--kube-target", target]].concat()
}

fn pod(kubectl: &Path) -> [&str; 4] {
    ["--kube", "team/agent-0/sidecar", "--kubectl", kubectl.to_str().unwrap()]
}

#[test]
fn over_a_unix_socket() {
    let (server, socket) = with_socket();
    let url = format!("unix://{}", socket.display());
    let output = exec(&server, &["--sidecar-url", &url], "seq 100000; exit 3").output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stdout.ends_with(b"\n99999\n100000\n"));
    let missing = exec(&server, &["--sidecar-url", "unix:///nowhere/x.sock"], "true").output().unwrap();
    assert_eq!(missing.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("unix:///nowhere/x.sock"));
}

#[test]
fn into_a_pod() {
    let (server, socket) = with_socket();
    let kubectl = fake_kubectl(server.scratch());
    let target = format!("unix:{}", socket.display());
    let output = exec(&server, &kube(&kubectl, &target), "echo in the pod; exit 4").output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.stdout, b"in the pod\n");
    let args = fs::read_to_string(format!("{}.args", kubectl.display())).unwrap();
    assert_eq!(args, format!("exec -i -n team agent-0 -c sidecar -- sandbox-sidecar connect {target}\n"));
}

/// As in the chart's pod, where a variable names the config: its unix socket, or its port and the token that lies there.
#[test]
fn into_a_pod_by_the_config_that_lies_there() {
    for (unix, ws) in [(true, false), (false, true), (true, true)] {
        let (server, socket) = with_socket();
        let kubectl = fake_kubectl(server.scratch());
        let mut listen = Vec::new();
        listen.extend(ws.then(|| server.url().to_owned()));
        listen.extend(unix.then(|| format!("unix://{}", socket.display())));
        let (config, token) =
            (server.scratch().state().join("pod.toml"), server.scratch().state().join("e2e-token"));
        fs::write(&config, format!("listen = {listen:?}\ntokenFile = {token:?}\n")).unwrap();
        let mut command = exec(&server, &pod(&kubectl), "echo in the pod; exit 4");
        let output = command.env("SANDBOX_SIDECAR_CONFIG", &config).output().unwrap();
        assert_eq!(output.status.code(), Some(4), "{}", String::from_utf8_lossy(&output.stderr));
        let args = fs::read_to_string(format!("{}.args", kubectl.display())).unwrap();
        assert!(args.ends_with(" -- sandbox-sidecar connect\n"), "{args}");

        // The control: without the token the port lets nobody in.
        fs::write(&config, format!("listen = [{:?}]\ntokenFile = {:?}\n", server.url(), "/nowhere/token"))
            .unwrap();
        let mut command = exec(&server, &pod(&kubectl), "true");
        let output = command.env("SANDBOX_SIDECAR_CONFIG", &config).output().unwrap();
        assert_eq!(output.status.code(), Some(125));
    }
}

/// What docs/start-kubernetes.md does first: none of these takes a pod for a sidecar in this process.
#[test]
fn what_is_asked_of_a_pod_is_the_pods() {
    let (server, socket) = with_socket();
    let kubectl = fake_kubectl(server.scratch());
    let target = format!("unix:{}", socket.display());
    let project = server.scratch().state().join("project");
    fs::create_dir(&project).unwrap();
    fs::write(project.join("file"), "pushed").unwrap();
    let ask = |words: &[&str], way: &[&str]| {
        let mut command = Command::new(programs::agent_client());
        clean_environment(&mut command, server.scratch());
        command.args(words).args(way).current_dir(&project).stdin(Stdio::null());
        command.output().unwrap()
    };
    let way = kube(&kubectl, &target);

    let doctor = String::from_utf8(ask(&["doctor"], &way).stdout).unwrap();
    assert!(doctor.contains("config        pod team/agent-0/sidecar\n"), "{doctor}");
    assert!(
        doctor.contains("the pod lets in who may enter it") && !doctor.contains("in this process"),
        "{doctor}"
    );
    let gone = ask(&["doctor"], &kube(&kubectl, "unix:/nowhere/x.sock"));
    assert_eq!(gone.status.code(), Some(1));
    let said = String::from_utf8(gone.stdout).unwrap();
    assert!(
        said.contains("/nowhere/x.sock") && said.contains("check that kubectl exec gets into that pod"),
        "{said}"
    );
    // The control: without a pod it is in this process, and there is nowhere to push to.
    assert!(String::from_utf8_lossy(&ask(&["doctor"], &[]).stdout).contains("in this process"));
    assert_eq!(ask(&["push"], &[]).status.code(), Some(125));

    let status = ask(&["status", "--json"], &way);
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status["server"], "pod team/agent-0/sidecar");

    let pushed = ask(&["push"], &way);
    assert!(pushed.status.success(), "{}", String::from_utf8_lossy(&pushed.stderr));
    assert_eq!(fs::read_to_string(server.workspace().join("file")).unwrap(), "pushed");
    fs::write(server.workspace().join("made"), "there").unwrap();
    let pulled = ask(&["pull"], &way);
    assert!(pulled.status.success(), "{}", String::from_utf8_lossy(&pulled.stderr));
    assert_eq!(fs::read_to_string(project.join("made")).unwrap(), "there");
}

#[test]
fn a_kubectl_that_fails_is_quoted() {
    let (server, _socket) = with_socket();
    let kubectl = server.scratch().state().join("broken-kubectl");
    fs::write(&kubectl, "#!/bin/sh\necho 'pods \"agent-0\" not found' >&2\nexit 1\n").unwrap();
    fs::set_permissions(&kubectl, fs::Permissions::from_mode(0o755)).unwrap();
    let output = exec(&server, &kube(&kubectl, "ws://127.0.0.1:8790"), "true").output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("pods \"agent-0\" not found"), "{stderr}");
}

#[test]
fn a_kubectl_that_dies_is_started_again() {
    let (server, socket) = with_socket();
    let kubectl = fake_kubectl(server.scratch());
    let target = format!("unix:{}", socket.display());
    let script = "for i in $(seq 40); do echo $i; sleep .1; done";
    let mut child = exec(&server, &kube(&kubectl, &target), script).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "1");
    let pids = || fs::read_to_string(format!("{}.pids", kubectl.display())).unwrap();
    let pid: i32 = pids().trim().parse().unwrap();
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    assert!(lines.map(|line| line.unwrap().parse::<u32>().unwrap()).eq(2..=40));
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(pids().lines().count(), 2);
}
