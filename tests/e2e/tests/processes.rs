//! Processes over the wire: nothing lost, nothing delayed, nothing left.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use e2e::client::{decode, encode};
use e2e::{Client, GIVE_UP, Server};
use nix::sys::stat::Mode;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::time::timeout;

fn sh(process: &str, script: &str, server: &Server) -> Value {
    json!({
        "processId": process, "argv": ["sh", "-c", script], "cwd": server.workspace(),
        "env": {"PATH": "/usr/bin:/bin"}, "tty": false,
    })
}

#[tokio::test]
async fn a_terminal_loses_nothing() {
    let server = Server::start();
    let mut client = Client::open(&server).await;
    for n in 0..200 {
        let mut params = sh(&format!("p{n}"), "printf x", &server);
        params["tty"] = json!(true);
        let finished = client.run(params).await;
        assert_eq!((finished.stdout.as_str(), finished.code()), ("x", 0), "run {n}");
    }
}

#[tokio::test]
async fn every_line_of_a_long_output_comes_in_order() {
    let server = Server::start();
    let mut client = Client::open(&server).await;
    for tty in [false, true] {
        let mut params = sh(&format!("{tty}"), "seq 1 200000", &server);
        params["tty"] = json!(tty);
        let finished = client.run(params).await;
        let lines = finished.stdout.lines().map(|line| line.parse::<u32>().unwrap());
        assert!(lines.eq(1..=200_000), "tty: {tty}");
    }
}

#[tokio::test]
async fn the_answer_precedes_the_output() {
    let server = Server::start();
    let mut client = Client::open(&server).await;
    for n in 0..50 {
        let id = client.request("process/start", sh(&format!("p{n}"), "echo x", &server)).await;
        let first = client.next().await.unwrap();
        assert_eq!(first["id"], id, "{first}");
        assert_eq!(client.finish(&format!("p{n}")).await.stdout, "x\n");
    }
}

#[tokio::test]
async fn start_write_and_read_in_one_go() {
    let server = Server::start();
    let mut client = Client::open(&server).await;
    let mut params = sh("p", "read line; echo got $line", &server);
    params["pipeStdin"] = json!(true);
    let start = client.request("process/start", params).await;
    let write = client.request("process/write", json!({"processId": "p", "chunk": encode("it\n")})).await;
    let read = client.request("process/read", json!({"processId": "p", "waitMs": 600_000})).await;
    assert!(client.response(&start).await.get("error").is_none());
    assert_eq!(client.response(&write).await["result"]["status"], "accepted");
    let read = client.response(&read).await;
    assert_eq!(decode(&read["result"]["chunks"][0]["chunk"]), b"got it\n", "{read}");
    assert_eq!(client.finish("p").await.stdout, "got it\n");
}

#[tokio::test]
async fn a_waiting_read_delays_nothing() {
    let server = Server::start();
    let mut client = Client::open(&server).await;
    client.call("process/start", sh("p", "exec sleep 600", &server)).await.unwrap();
    let read = client.request("process/read", json!({"processId": "p", "waitMs": 10_000})).await;
    let asked = client.request("environment/status", json!({})).await;
    // In the order in which they come: the later request is answered first.
    assert_eq!(client.next().await.unwrap()["id"], asked);
    client.call("process/terminate", json!({"processId": "p"})).await.unwrap();
    let read = client.response(&read).await;
    assert_eq!(read["result"]["exited"], true, "the end wakes it: {read}");
}

/// Each holds the FIFO open as descriptor 9; its end of file tells that the last of them is gone.
const TREES: [(&str, &str); 4] = [
    ("background", "sleep 600 & echo up; wait"),
    ("setsid", "setsid sleep 600 & setsid sh -c 'sleep 600 & disown 2>/dev/null; sleep 600' & echo up; wait"),
    ("daemon", "(setsid sh -c '(sleep 600 </dev/null >/dev/null 2>&1 &)' &) ; echo up; exec sleep 600"),
    (
        "bounded bomb",
        "b() { [ $1 -gt 5 ] && exec sleep 600; b $(($1+1)) & b $(($1+1)) & wait; }; b 0 & echo up; wait",
    ),
];

#[tokio::test]
async fn terminate_leaves_nothing() {
    let server = Server::start();
    let mut client = Client::open(&server).await;
    let mut bystander = sh("bystander", "exec cat", &server);
    bystander["pipeStdin"] = json!(true);
    client.call("process/start", bystander).await.unwrap();

    for (name, script) in TREES {
        let fifo = server.workspace().join("fifo");
        nix::unistd::mkfifo(&fifo, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
        let mut watch = pipe::OpenOptions::new().open_receiver(&fifo).unwrap();
        // SIGTERM is ignored, so that only what cannot be ignored ends them.
        let script = format!("trap '' TERM; exec 9>fifo; {script}");
        client.call("process/start", sh(name, &script, &server)).await.unwrap();
        let up = client.of_process(name, "output").await;
        assert_eq!(decode(&up["chunk"]), b"up\n", "{name}");
        let params = json!({"processId": name, "graceMs": 1});
        let ended = client.call("process/terminate", params).await.unwrap();
        assert_eq!(ended, json!({"running": true}), "{name}");
        let exited = client.of_process(name, "exited").await;
        assert_eq!(exited["signal"], "SIGKILL", "{name}: {exited}");
        assert_eq!(exited["cause"], "terminated", "{name}: {exited}");
        let end = timeout(GIVE_UP, watch.read(&mut [0; 1])).await;
        assert_eq!(end.unwrap_or_else(|_| panic!("{name}: something is left")).unwrap(), 0);
        fs::remove_file(&fifo).unwrap();
    }

    client
        .call("process/write", json!({"processId": "bystander", "chunk": encode("alive\n")}))
        .await
        .unwrap();
    let output = client.of_process("bystander", "output").await;
    assert_eq!(decode(&output["chunk"]), b"alive\n", "another launch is untouched");
}

#[tokio::test]
async fn a_lost_connection_ends_its_processes() {
    let server = Server::start();
    let fifo = server.workspace().join("fifo");
    nix::unistd::mkfifo(&fifo, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    let mut watch = pipe::OpenOptions::new().open_receiver(&fifo).unwrap();
    let mut client = Client::open(&server).await;
    let script = "exec 9>fifo; setsid sleep 600 & echo up; wait";
    client.call("process/start", sh("p", script, &server)).await.unwrap();
    client.of_process("p", "output").await;
    drop(client);
    let end = timeout(GIVE_UP, watch.read(&mut [0; 1])).await;
    assert_eq!(end.expect("the processes end with their session").unwrap(), 0);
}

#[tokio::test]
async fn a_command_that_cannot_start_says_why() {
    let server = Server::start();
    let ws = server.workspace();
    let file = |name: &str, text: &str, mode: u32| {
        let path = ws.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let file_cwd = file("file", "", 0o644);
    let no_interpreter = file("script", "#!/nope\n", 0o755);
    let no_format = file("text", "plain text", 0o755);
    let not_executable = file("data", "#!/bin/sh\n", 0o644);
    let closed = ws.join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let ws_text = ws.to_str().unwrap();
    let closed = closed.to_str().unwrap();
    let missing = ws.join("missing");
    let missing = missing.to_str().unwrap();

    let mut client = Client::open(&server).await;
    // program, cwd → kind, stage, errno, path
    let cases = [
        ("no-such-program", ws_text, "spawnNotFound", "exec", libc::ENOENT, "no-such-program"),
        (missing, ws_text, "spawnNotFound", "exec", libc::ENOENT, missing),
        ("true", missing, "cwdNotFound", "cwd", libc::ENOENT, missing),
        ("true", &file_cwd, "cwdNotFound", "cwd", libc::ENOTDIR, &file_cwd),
        ("true", closed, "permissionDenied", "cwd", libc::EACCES, closed),
        (&no_interpreter, ws_text, "notExecutable", "exec", libc::ENOENT, &no_interpreter),
        (ws_text, ws_text, "notExecutable", "exec", libc::EACCES, ws_text),
        (&no_format, ws_text, "notExecutable", "exec", libc::ENOEXEC, &no_format),
        (&not_executable, ws_text, "permissionDenied", "exec", libc::EACCES, &not_executable),
    ];
    for (n, (program, cwd, kind, stage, errno, path)) in cases.into_iter().enumerate() {
        let params = json!({
            "processId": format!("p{n}"), "argv": [program], "cwd": cwd,
            "env": {"PATH": "/usr/bin:/bin"}, "tty": false,
        });
        let error = client.call("process/start", params).await.unwrap_err();
        let data = &error["data"];
        assert_eq!(error["code"], -32603, "{program} in {cwd}: {error}");
        assert_eq!(
            (&data["kind"], &data["stage"]),
            (&json!(kind), &json!(stage)),
            "{program} in {cwd}: {error}"
        );
        assert_eq!(
            (&data["errno"], &data["path"]),
            (&json!(errno), &json!(path)),
            "{program} in {cwd}: {error}"
        );
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(Path::new(path).file_name().unwrap().to_str().unwrap()), "{message}");
    }
    let good = json!({"processId": "good", "argv": ["true"], "cwd": ws, "env": {"PATH": "/usr/bin:/bin"}, "tty": false});
    assert_eq!(client.run(good).await.code(), 0);
    // So that the folder can be removed by an ordinary user.
    fs::set_permissions(closed, fs::Permissions::from_mode(0o700)).unwrap();
}

#[tokio::test]
async fn the_umask_of_the_config_is_that_of_commands_and_of_files() {
    for (mask, command_mode, file_mode) in [("002", 0o664, 0o664), ("077", 0o600, 0o600)] {
        let server = Server::builder()
            .under(&["env", &format!("SANDBOX_SIDECAR_UMASK={mask}")].map(OsStr::new))
            .start();
        let mut client = Client::open(&server).await;
        let finished = client.run(sh("p", ": > by-command; umask", &server)).await;
        assert_eq!((finished.stdout.trim_end(), finished.code()), (format!("0{mask}").as_str(), 0));
        let written = json!({"path": server.workspace().join("by-file"), "dataBase64": encode("x")});
        client.call("fs/writeFile", written).await.unwrap();
        let mode =
            |name: &str| fs::metadata(server.workspace().join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("by-command"), mode("by-file")), (command_mode, file_mode), "{mask}");
    }
}
