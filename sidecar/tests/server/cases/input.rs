//! Input, terminals, signals and time limits.

use serde_json::{Value, json};

use super::{stdin, tty};
use crate::common::{Client, alive, decode, encode, with};
use crate::lines::{Setting, over_each_transport};

over_each_transport![
    case_13_large_stdin,
    case_14_the_end_of_input,
    case_15_terminal_sizes,
    case_16_signals,
    case_17_timeouts,
    case_31_after_the_exit,
];

async fn write(client: &mut Client, id: &str, bytes: impl AsRef<[u8]>) {
    let written = client.call("process/write", json!({ "processId": id, "chunk": encode(bytes) })).await;
    assert_eq!(written, json!({ "status": "accepted", "accepted": true }));
}

async fn close_stdin(client: &mut Client, id: &str) -> Value {
    client.call("process/closeStdin", json!({ "processId": id })).await["status"].take()
}

async fn case_13_large_stdin(mut setting: Setting) {
    let (client, fixture) = (&mut setting.client, &setting.fixture);
    client.call("process/start", stdin(fixture.command("wc", &["wc", "-c"]))).await;
    let mut requests = Vec::new();
    for _ in 0..16 {
        let params = json!({ "processId": "wc", "chunk": encode(vec![b'x'; 4 << 20]) });
        requests.push(client.request("process/write", params).await);
    }
    requests.push(client.request("process/closeStdin", json!({ "processId": "wc" })).await);
    let late = format!("until [ -e {} ]; do sleep 0.01; done; wc -c", fixture.ws("go").display());
    client.call("process/start", stdin(fixture.shell("late", &late))).await;
    let stuck = json!({ "processId": "late", "chunk": encode(vec![b'\n'; 1 << 20]) });
    requests.push(client.request("process/write", stuck).await);
    requests.push(client.request("process/closeStdin", json!({ "processId": "late" })).await);
    assert_eq!(client.run(fixture.command("other", &["echo", "x"])).await.out(), "x\n");
    // Until here nobody has read.
    std::fs::write(fixture.ws("go"), "").expect("written");
    for request in requests {
        assert_eq!(client.outcome(request).await.expect("an answer")["status"], "accepted");
    }
    assert_eq!(client.follow("wc").await.out().trim(), (64 << 20).to_string());
    assert_eq!(client.follow("late").await.out().trim(), (1 << 20).to_string());
}

async fn case_14_the_end_of_input(mut setting: Setting) {
    let (client, fixture) = (&mut setting.client, &setting.fixture);
    for (id, text) in [("line", "boi\n"), ("partial", "boi"), ("empty", "")] {
        let expected = client
            .run(fixture.shell(&format!("{id}-file"), &format!("printf '{text}' | sha256sum")))
            .await
            .out();
        client.call("process/start", stdin(fixture.command(id, &["sha256sum"]))).await;
        write(client, id, text).await;
        assert_eq!(close_stdin(client, id).await, "accepted");
        assert_eq!(client.follow(id).await.out(), expected, "{id}");
        // The terminal's own echo would be part of the output.
        let id = format!("{id}-tty");
        client.call("process/start", tty(fixture.shell(&id, "stty -echo; echo up; sha256sum"))).await;
        client.wait_for(&id, "up").await;
        write(client, &id, text).await;
        assert_eq!(close_stdin(client, &id).await, "accepted");
        let transcript = client.follow(&id).await;
        let seen = String::from_utf8_lossy(&transcript.pty).replace("\r\n", "\n");
        assert_eq!(seen, format!("up\n{expected}"), "{id}");
    }
}

async fn case_15_terminal_sizes(mut setting: Setting) {
    let (client, fixture) = (&mut setting.client, &setting.fixture);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    assert_eq!(text(&client.run(tty(fixture.command("a", &["stty", "size"]))).await.pty), "24 80");
    let sized =
        with(tty(fixture.command("b", &["stty", "size"])), "size", json!({ "rows": 50, "cols": 132 }));
    assert_eq!(text(&client.run(sized).await.pty), "50 132");
    let script = "trap 'stty size; exit' WINCH; echo up; while :; do sleep 0.05; done";
    client.call("process/start", tty(fixture.shell("c", script))).await;
    client.wait_for("c", "up").await;
    let resized = client.call("process/resize", json!({ "processId": "c", "rows": 43, "cols": 121 })).await;
    assert_eq!(resized, json!({}));
    assert_eq!(text(&client.follow("c").await.pty), "up\r\n43 121");
}

async fn case_16_signals(mut setting: Setting) {
    let (client, fixture) = (&mut setting.client, &setting.fixture);
    for (signal, code, name) in
        [("interrupt", 130, "SIGINT"), ("terminate", 143, "SIGTERM"), ("kill", 137, "SIGKILL")]
    {
        // In a terminal it goes to the foreground group.
        let in_terminal = tty(fixture.command(&format!("{signal}-tty"), &["sleep", "60"]));
        client.call("process/start", in_terminal).await;
        let params = json!({ "processId": format!("{signal}-tty"), "signal": signal });
        client.call("process/signal", params).await;
        assert_eq!(client.follow(&format!("{signal}-tty")).await.exited["signal"], name);
        client.call("process/start", fixture.command(signal, &["sleep", "60"])).await;
        client.call("process/signal", json!({ "processId": signal, "signal": signal })).await;
        let exited = client.follow(signal).await.exited;
        assert_eq!((&exited["exitCode"], &exited["signal"]), (&json!(code), &json!(name)));
        let ended = client.call("process/wait", json!({ "processId": signal })).await;
        assert_eq!(ended, json!({ "exited": true, "exitCode": code, "signal": name, "closed": true }));
    }
    let exited = client.run(fixture.shell("self", "kill -9 $$")).await.exited;
    assert_eq!((&exited["exitCode"], &exited["signal"]), (&json!(137), &json!("SIGKILL")));
}

async fn case_17_timeouts(mut setting: Setting) {
    let (client, fixture) = (&mut setting.client, &setting.fixture);
    // Unlike any other test's, over each transport.
    let marker = format!("300.17{}", setting.transport as u8);
    for (key, cause) in [("timeoutMs", "timeout"), ("idleTimeoutMs", "idleTimeout")] {
        let params = with(fixture.shell(cause, &format!("sleep {marker} & wait")), key, json!(50));
        let exited = client.run(params).await.exited;
        assert_eq!((&exited["cause"], &exited["exitCode"]), (&json!(cause), &json!(143)));
        assert_eq!(alive(&marker), 0, "a descendant is left");
    }
}

async fn case_31_after_the_exit(mut setting: Setting) {
    let (client, fixture) = (&mut setting.client, &setting.fixture);
    for start in [stdin(fixture.command("pipe", &["true"])), tty(fixture.command("tty", &["true"]))] {
        let id = start["processId"].as_str().expect("an id").to_owned();
        client.run(start).await;
        let late = client.call("process/write", json!({ "processId": id, "chunk": "eA==" })).await;
        assert_eq!(late["status"], "stdinClosed");
        assert_eq!(close_stdin(client, &id).await, "stdinClosed");
        let signal = json!({ "processId": id, "signal": "interrupt" });
        assert_eq!(client.call("process/signal", signal).await, json!({}));
    }
    let resize = json!({ "processId": "tty", "rows": 1, "cols": 1 });
    assert_eq!(client.call("process/resize", resize).await, json!({}));
    let read = client.call("process/read", json!({ "processId": "pipe" })).await;
    assert!(read["chunks"].as_array().expect("chunks").iter().all(|c| decode(&c["chunk"]).is_empty()));
}
