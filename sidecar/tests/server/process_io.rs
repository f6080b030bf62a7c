//! Terminals, stdin, reads, retention, signals.

use std::time::Duration;

use serde_json::{Value, json};

use crate::common::{Client, Fixture, decode, encode, with};

fn tty(params: Value) -> Value {
    with(params, "tty", json!(true))
}

fn stdin(params: Value) -> Value {
    with(params, "pipeStdin", json!(true))
}

async fn write(client: &mut Client, id: &str, bytes: impl AsRef<[u8]>) -> Value {
    client.call("process/write", json!({ "processId": id, "chunk": encode(bytes) })).await
}

#[tokio::test]
async fn a_terminal_has_the_size_that_was_asked_for() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    let size = |t: &crate::common::Transcript| String::from_utf8_lossy(&t.pty).trim().to_owned();
    assert_eq!(size(&client.run(tty(fixture.command("a", &["stty", "size"]))).await), "24 80");
    let large =
        with(tty(fixture.command("b", &["stty", "size"])), "size", json!({ "rows": 50, "cols": 132 }));
    assert_eq!(size(&client.run(large).await), "50 132");
}

#[tokio::test]
async fn a_dialogue_in_a_terminal() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    client
        .call("process/start", tty(fixture.shell("p", "printf 'name? '; read n; echo \"hello $n\"; exit 4")))
        .await;
    client.wait_for("p", "name? ").await;
    write(&mut client, "p", "bob\n").await;
    let transcript = client.follow("p").await;
    assert_eq!(String::from_utf8_lossy(&transcript.pty), "name? bob\r\nhello bob\r\n");
    assert_eq!(transcript.code(), 4);
}

#[tokio::test]
async fn control_c_and_interrupt_reach_the_foreground() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    for id in ["typed", "signalled"] {
        client.call("process/start", tty(fixture.command(id, &["cat"]))).await;
        // The terminal echoes the line, and cat repeats it: so cat is up. (A shell that is just about to fork may
        // rightly miss an interrupt.)
        write(&mut client, id, "up\n").await;
        client.wait_for(id, "up\r\nup\r\n").await;
        if id == "typed" {
            write(&mut client, id, [3]).await;
        } else {
            client.call("process/signal", json!({ "processId": id, "signal": "interrupt" })).await;
        }
        assert_eq!(client.follow(id).await.exited["signal"], "SIGINT");
    }
}

#[tokio::test]
async fn every_byte_of_large_output_arrives_in_order() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    let transcript = client.run(fixture.command("p", &["seq", "200000"])).await;
    let expected: String = (1..=200_000).map(|n| format!("{n}\n")).collect();
    assert!(transcript.out() == expected, "{} bytes", transcript.stdout.len());
    let script = "head -c 8388608 /dev/zero | tr '\\0' x; head -c 1048576 /dev/zero | tr '\\0' y >&2";
    let transcript = client.run(fixture.shell("q", script)).await;
    assert!(transcript.stdout == vec![b'x'; 8 << 20] && transcript.stderr == vec![b'y'; 1 << 20]);
}

#[tokio::test]
async fn a_background_process_delays_no_exit_and_lives_on() {
    let fixture = Fixture::with(|config| config.limits.drain = Duration::from_millis(200)).await;
    let mut client = fixture.client().await;
    // The last line of the command precedes `closed` although the background process holds the pipe.
    let script = "seq 200000; (while :; do echo tick >> ticks; sleep 0.05; done) & echo $! > pid";
    let transcript = client.run(fixture.shell("p", script)).await;
    assert!(transcript.out().ends_with("200000\n"));
    assert_eq!(transcript.code(), 0);
    let pid = std::fs::read_to_string(fixture.ws("pid")).expect("written");
    let process = std::path::PathBuf::from(format!("/proc/{}", pid.trim()));
    assert!(process.exists());
    let terminate = |descendants| json!({ "processId": "p", "descendants": descendants });
    assert_eq!(client.call("process/terminate", terminate(false)).await, json!({ "running": false }));
    client.call("environment/status", json!({})).await;
    assert!(process.exists(), "it was left alone");
    assert_eq!(client.call("process/terminate", terminate(true)).await, json!({ "running": false }));
    let mut looks = tokio::time::interval(Duration::from_millis(20));
    while process.exists() {
        looks.tick().await;
    }
}

#[tokio::test]
async fn stdin_is_closed_unless_asked_for() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    assert_eq!(client.run(fixture.command("p", &["cat"])).await.code(), 0);
    client.call("process/start", fixture.command("q", &["sleep", "600"])).await;
    assert_eq!(write(&mut client, "q", "x").await, json!({ "status": "stdinClosed", "accepted": false }));
    assert_eq!(write(&mut client, "none", "x").await["status"], "unknownProcess");
    let error = client.refused("process/write", json!({ "processId": "q", "chunk": "no base64!" })).await;
    assert_eq!(error["code"], -32602);
}

#[tokio::test]
async fn writes_apply_in_order_and_once() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    let count = 256;
    let total = 256 * 65_536;
    let script = format!("head -c {total} | cksum; head -c 3");
    client.call("process/start", stdin(fixture.shell("p", &script))).await;
    let mut expected = Vec::new();
    let mut requests = Vec::new();
    for i in 0..count {
        let chunk: Vec<u8> = (0..65_536u32).map(|j| ((i * 7 + j) % 253) as u8).collect();
        let params = json!({ "processId": "p", "chunk": encode(&chunk), "writeId": i.to_string() });
        requests.push(client.request("process/write", params.clone()).await);
        if i % 64 == 0 {
            requests.push(client.request("process/write", params).await);
        }
        expected.extend(chunk);
    }
    for request in requests {
        assert_eq!(client.outcome(request).await.expect("written")["status"], "accepted");
    }
    write(&mut client, "p", "end").await;
    let transcript = client.follow("p").await;
    std::fs::write(fixture.ws("expected"), &expected).expect("written");
    let sum = client.run(fixture.shell("q", "cksum < expected")).await;
    assert_eq!(transcript.out(), format!("{}end", sum.out()));
    assert_eq!(write(&mut client, "p", "late").await["status"], "stdinClosed");
    let repeated = json!({ "processId": "p", "chunk": "", "writeId": "0" });
    assert_eq!(client.call("process/write", repeated).await["status"], "accepted");
}

#[tokio::test]
async fn a_full_stdin_stalls_nothing_else() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    client.call("process/start", stdin(fixture.command("p", &["sleep", "600"]))).await;
    let params = json!({ "processId": "p", "chunk": encode(vec![0; 1 << 20]) });
    let stuck = client.request("process/write", params).await;
    assert_eq!(client.run(fixture.command("q", &["echo", "x"])).await.out(), "x\n");
    client.call("process/signal", json!({ "processId": "p", "signal": "kill" })).await;
    assert_eq!(client.outcome(stuck).await.expect("an answer")["status"], "stdinClosed");
    assert_eq!(client.follow("p").await.exited["signal"], "SIGKILL");
}

#[tokio::test]
async fn reads() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    let read = |after: u64, max: Value, wait: u64| json!({ "processId": "p", "afterSeq": after, "maxBytes": max, "waitMs": wait });
    client.call("process/start", stdin(fixture.command("p", &["cat"]))).await;
    let empty = client.call("process/read", read(0, Value::Null, 0)).await;
    assert_eq!(
        (&empty["chunks"], &empty["nextSeq"], &empty["exited"]),
        (&json!([]), &json!(1), &json!(false))
    );
    for text in ["one", "two"] {
        write(&mut client, "p", text).await;
        client.wait_for("p", text).await;
    }
    let both = client.call("process/read", read(0, Value::Null, 0)).await;
    assert_eq!((both["chunks"].as_array().expect("chunks").len(), &both["nextSeq"]), (2, &json!(3)));
    let first = client.call("process/read", read(0, json!(1), 0)).await;
    assert_eq!((decode(&first["chunks"][0]["chunk"]), &first["nextSeq"]), (b"one".to_vec(), &json!(2)));
    // Wakes at the exit.
    let waiting = client.request("process/read", read(2, Value::Null, 600_000)).await;
    client.call("process/signal", json!({ "processId": "p", "signal": "terminate" })).await;
    let woken = client.outcome(waiting).await.expect("an answer");
    assert_eq!((&woken["exited"], &woken["exitCode"]), (&json!(true), &json!(143)));
    client.follow("p").await;
    let end = client.call("process/read", read(3, Value::Null, 600_000)).await;
    assert_eq!((&end["closed"], &end["nextSeq"], &end["failure"]), (&json!(true), &json!(5), &Value::Null));
    let error = client.refused("process/read", json!({ "processId": "nope" })).await;
    assert_eq!((&error["code"], &error["message"]), (&json!(-32600), &json!("unknown process id nope")));
}

#[tokio::test]
async fn what_is_not_retained_is_counted() {
    let fixture = Fixture::with(|config| config.limits.retained_bytes = 100_000).await;
    let mut client = fixture.client().await;
    let transcript = client.run(fixture.shell("p", "head -c 1000000 /dev/zero")).await;
    assert_eq!(transcript.stdout.len(), 1_000_000, "who reads along loses nothing");
    let read = client.call("process/read", json!({ "processId": "p" })).await;
    let kept: usize =
        read["chunks"].as_array().expect("chunks").iter().map(|c| decode(&c["chunk"]).len()).sum();
    assert!(kept <= 100_000);
    assert_eq!(read["droppedBytes"].as_u64().expect("a count") + kept as u64, 1_000_000);
}

#[tokio::test]
async fn exit_codes_and_signals_by_name() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    for (name, code, signal) in [
        ("interrupt", 130, "SIGINT"),
        ("terminate", 143, "SIGTERM"),
        ("kill", 137, "SIGKILL"),
        ("hangup", 129, "SIGHUP"),
        ("quit", 131, "SIGQUIT"),
        ("user1", 138, "SIGUSR1"),
        ("user2", 140, "SIGUSR2"),
    ] {
        client.call("process/start", fixture.command(name, &["sleep", "600"])).await;
        client.call("process/signal", json!({ "processId": name, "signal": name })).await;
        let exited = client.follow(name).await.exited;
        let seen = (&exited["exitCode"], &exited["signal"], &exited["cause"]);
        assert_eq!(seen, (&json!(code), &json!(signal), &json!("signal")), "{name}");
    }
    client.call("process/start", fixture.command("s", &["sleep", "600"])).await;
    for signal in ["stop", "continue", "terminate"] {
        client.call("process/signal", json!({ "processId": "s", "signal": signal })).await;
    }
    assert_eq!(client.follow("s").await.code(), 143);
    assert_eq!(client.run(fixture.shell("self", "kill -9 $$")).await.exited["signal"], "SIGKILL");
    for id in ["s", "nobody"] {
        assert_eq!(
            client.call("process/signal", json!({ "processId": id, "signal": "kill" })).await,
            json!({})
        );
    }
    assert_eq!(
        client.refused("process/signal", json!({ "processId": "s", "signal": "x" })).await["code"],
        -32602
    );
}
