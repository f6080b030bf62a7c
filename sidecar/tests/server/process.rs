//! Starting, ids, the order on the wire, what is enforced.

use serde_json::{Value, json};

use crate::common::{Fixture, decode, encode, uri, with};

#[tokio::test]
async fn output_exit_code_and_receipt() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    let params = fixture.shell("p", "echo out; echo err >&2; pwd; exit 3");
    let started = client.call("process/start", with(params, "cwd", json!(uri(&fixture.ws(""))))).await;
    assert_eq!((&started["processId"], &started["sandboxType"]), (&json!("p"), &json!("linuxSeccomp")));
    let enforcement = &started["enforcement"];
    assert_eq!(enforcement["profile"], "workspaceWriteNoNetwork");
    assert!(["full", "partial"].contains(&enforcement["parts"]["fsWrite"].as_str().expect("a part")));
    let transcript = client.follow("p").await;
    let cwd = fixture.ws("").canonicalize().expect("real");
    assert_eq!(transcript.out(), format!("out\n{}\n", cwd.display()));
    assert_eq!(transcript.err(), "err\n");
    assert_eq!(transcript.code(), 3);
    assert_eq!(
        (&transcript.exited["cause"], &transcript.exited["sandboxDenied"]),
        (&json!("exit"), &json!(false))
    );
    assert_eq!(transcript.exited.get("signal"), None);
}

#[tokio::test]
async fn the_profile_is_enforced_and_a_denial_is_told_with_what_would_grant_it() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    let outside = fixture.outside("file");
    std::fs::write(&outside, "the sidecar itself can write here").expect("positive control");
    let script = format!("echo in > inside && echo out > {}", outside.display());
    let denied = client.run(fixture.shell("p", &script)).await;
    assert_ne!(denied.code(), 0);
    assert_eq!(denied.exited["sandboxDenied"], true);
    let hint = denied.exited["hint"].as_str().expect("a hint");
    assert_eq!(hint, format!("writeRoots += {:?}", outside.parent().expect("a parent")));
    assert_eq!(std::fs::read_to_string(fixture.ws("inside")).expect("written"), "in\n");
    // The same words with exit code 0 are no denial.
    let fine = client.run(fixture.shell("q", "echo permission denied")).await;
    assert_eq!(fine.exited["sandboxDenied"], false);
    let read_only = with(fixture.shell("r", "echo x > inside2"), "sandbox", json!({ "mode": "readOnly" }));
    assert_ne!(client.run(read_only).await.code(), 0);
    assert!(!fixture.ws("inside2").exists());
}

#[tokio::test]
async fn what_a_start_must_look_like() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    let base = fixture.command("p", &["true"]);
    let invalid = [
        ("argv", json!([]), "argv must not be empty"),
        ("argv", json!(["a\u{0}b"]), "NUL"),
        ("arg0", json!("a\u{0}b"), "NUL"),
        ("cwd", json!("relative"), "absolute"),
        ("cwd", json!("/a\u{0}b"), "NUL"),
        ("env", json!({ "": "x" }), "env names"),
        ("env", json!({ "A=B": "x" }), "env names"),
        ("env", json!({ "A": "x\u{0}" }), "NUL"),
        ("processId", json!(""), "processId"),
        ("processId", json!("x".repeat(257)), "processId"),
        ("size", json!({ "rows": 0, "cols": 80 }), "size"),
        ("sandbox", json!({ "mode": "nonsense" }), "nonsense"),
        ("envPolicy", json!({ "exclude": ["["] }), "pattern"),
    ];
    for (key, value, word) in invalid {
        let error = client.refused("process/start", with(base.clone(), key, value)).await;
        assert_eq!(error["code"], -32602, "{error}");
        assert!(error["message"].as_str().expect("a message").contains(word), "{error}");
    }
    for (key, value) in [
        ("networkProxy", json!({})),
        ("managedNetwork", json!({ "x": 1 })),
        ("enforceManagedNetwork", json!(true)),
    ] {
        let error = client.refused("process/start", with(base.clone(), key, value)).await;
        assert_eq!(error["code"], -32600, "{error}");
        assert!(error["message"].as_str().expect("a message").contains(key), "{error}");
    }
    let nulls = with(with(base, "managedNetwork", Value::Null), "enforceManagedNetwork", json!(false));
    assert_eq!(client.run(with(nulls, "arg0", Value::Null)).await.code(), 0);
}

#[tokio::test]
async fn an_id_is_taken_until_it_is_forgotten() {
    let fixture = Fixture::with(|config| config.limits.exited_ttl = std::time::Duration::ZERO).await;
    let mut client = fixture.client().await;
    client.call("process/start", with(fixture.command("p", &["cat"]), "pipeStdin", json!(true))).await;
    let error = client.refused("process/start", fixture.command("p", &["true"])).await;
    assert_eq!((&error["code"], &error["message"]), (&json!(-32600), &json!("process p already exists")));
    // Ids belong to a session.
    fixture.client().await.run(fixture.command("p", &["true"])).await;
    client.call("process/signal", json!({ "processId": "p", "signal": "kill" })).await;
    client.follow("p").await;
    // Forgotten at once here: there is no event for that, so the start is tried until it is let in.
    while let Err(error) = {
        let id = client.request("process/start", fixture.command("p", &["true"])).await;
        client.outcome(id).await
    } {
        assert_eq!(error["message"], "process p already exists");
    }
    client.follow("p").await;
}

#[tokio::test]
async fn a_full_table_forgets_the_exited_and_refuses_more_running_ones() {
    let fixture = Fixture::with(|config| config.limits.processes = 2).await;
    let mut client = fixture.client().await;
    for id in ["a", "b", "c"] {
        client.run(fixture.command(id, &["true"])).await;
    }
    for id in ["d", "e"] {
        client.call("process/start", with(fixture.command(id, &["cat"]), "pipeStdin", json!(true))).await;
    }
    let error = client.refused("process/start", fixture.command("f", &["true"])).await;
    assert_eq!((&error["code"], &error["data"]["limit"]), (&json!(-32011), &json!("limits.processes")));
}

#[tokio::test]
async fn a_pipelined_write_and_read_find_the_process() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    let start = with(fixture.command("p", &["head", "-n", "1"]), "pipeStdin", json!(true));
    let start = client.request("process/start", start).await;
    let write =
        client.request("process/write", json!({ "processId": "p", "chunk": encode("hello\n") })).await;
    let read = client.request("process/read", json!({ "processId": "p", "waitMs": 30_000 })).await;
    let signal = client.request("process/signal", json!({ "processId": "p", "signal": "continue" })).await;
    assert_eq!(
        client.outcome(write).await.expect("written"),
        json!({ "status": "accepted", "accepted": true })
    );
    let read = client.outcome(read).await.expect("read");
    assert_eq!(decode(&read["chunks"][0]["chunk"]), b"hello\n");
    client.outcome(start).await.expect("started");
    client.outcome(signal).await.expect("signalled");
    assert_eq!(client.follow("p").await.out(), "hello\n");
}

#[tokio::test]
async fn a_pipelined_call_to_a_launch_that_fails_finds_nothing() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    let start = client.request("process/start", fixture.command("p", &["/no/such"])).await;
    let write = client.request("process/write", json!({ "processId": "p", "chunk": "" })).await;
    let read = client.request("process/read", json!({ "processId": "p", "waitMs": 30_000 })).await;
    let terminate = client.request("process/terminate", json!({ "processId": "p" })).await;
    client.outcome(start).await.expect_err("missing");
    assert_eq!(client.outcome(write).await.expect("an answer")["status"], "unknownProcess");
    assert_eq!(client.outcome(read).await.expect_err("unknown")["message"], "unknown process id p");
    assert_eq!(client.outcome(terminate).await.expect("an answer"), json!({ "running": false }));
}

#[tokio::test]
async fn the_start_is_answered_before_the_first_output() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    for i in 0..50 {
        let id = format!("p{i}");
        let start = client.request("process/start", fixture.command(&id, &["echo", "x"])).await;
        client.response(start).await;
        assert!(!client.has_notifications(), "output came before the answer");
        client.follow(&id).await;
    }
}

#[tokio::test]
async fn a_waiting_read_delays_nothing() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    client.call("process/start", with(fixture.command("p", &["cat"]), "pipeStdin", json!(true))).await;
    let read = client.request("process/read", json!({ "processId": "p", "waitMs": 600_000 })).await;
    client.call("environment/status", json!({})).await;
    client.call("fs/getMetadata", json!({ "path": fixture.ws("") })).await;
    assert_eq!(client.run(fixture.command("q", &["echo", "x"])).await.out(), "x\n");
    client.call("process/write", json!({ "processId": "p", "chunk": encode("go") })).await;
    let read = client.outcome(read).await.expect("read");
    assert_eq!(decode(&read["chunks"][0]["chunk"]), b"go");
}

#[tokio::test]
async fn a_flood_delays_no_other_answer() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    client.call("process/start", fixture.command("flood", &["yes"])).await;
    client.call("process/start", with(fixture.command("cat", &["cat"]), "pipeStdin", json!(true))).await;
    for i in 0..20 {
        client.call("process/write", json!({ "processId": "cat", "chunk": encode("x") })).await;
        let read = json!({ "processId": "cat", "afterSeq": i, "waitMs": 30_000 });
        assert_eq!(client.call("process/read", read).await["chunks"].as_array().expect("chunks").len(), 1);
    }
    client.call("process/terminate", json!({ "processId": "flood" })).await;
    assert_eq!(client.follow("flood").await.code(), 143);
}

#[tokio::test]
async fn env_alone_or_on_top_of_the_servers() {
    let fixture = Fixture::with(|config| {
        config.launch_env = [("FROM_SERVER", "1"), ("API_KEY", "secret"), ("PATH", "/usr/bin:/bin")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into();
    })
    .await;
    let mut client = fixture.client().await;
    let bare = with(fixture.command("a", &["/usr/bin/env"]), "env", json!({ "ONLY": "this" }));
    assert_eq!(client.run(bare.clone()).await.out(), "ONLY=this\n");
    let all = with(with(bare, "envPolicy", json!({ "inherit": "all" })), "processId", json!("b"));
    let mut lines: Vec<String> = client.run(all).await.out().lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["FROM_SERVER=1", "ONLY=this", "PATH=/usr/bin:/bin"]);
}

#[tokio::test]
async fn the_operators_ceiling_holds_whatever_is_asked_for() {
    let fixture = Fixture::with(|config| {
        config.sandbox.ceiling = sidecar_sandbox::Profile::ReadOnly;
        config.sandbox.default = sidecar_sandbox::Profile::ReadOnly;
    })
    .await;
    let mut client = fixture.client().await;
    for (id, sandbox) in [
        ("a", json!({ "mode": "none" })),
        ("b", json!({ "mode": "workspaceWrite" })),
        ("c", json!({ "permissions": { "type": "disabled" } })),
        (
            "d",
            json!({ "permissions": { "type": "managed", "file_system": { "type": "unrestricted" }, "network": "enabled" } }),
        ),
    ] {
        let transcript =
            client.run(with(fixture.shell(id, "ls . && echo x > file"), "sandbox", sandbox)).await;
        assert_ne!(transcript.code(), 0, "{id}");
    }
    assert!(!fixture.ws("file").exists());
}

#[tokio::test]
async fn only_a_ceiling_of_none_launches_unconfined() {
    let fixture = Fixture::with(|config| config.sandbox.ceiling = sidecar_sandbox::Profile::None).await;
    let mut client = fixture.client().await;
    let script = format!("echo x > {}", fixture.outside("file").display());
    let params = with(fixture.shell("p", &script), "sandbox", json!({ "mode": "none" }));
    let started = client.call("process/start", params).await;
    assert_eq!(
        (&started["sandboxType"], &started["enforcement"]["status"]),
        (&json!("none"), &json!("none"))
    );
    assert_eq!(client.follow("p").await.code(), 0);
    assert_ne!(client.run(fixture.shell("q", &script)).await.code(), 0, "the default stays");
}
