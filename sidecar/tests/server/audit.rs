//! The audit trail: what is recorded, once and only once, and that nobody gets at it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sandbox_sidecar::config::{AuditSink, Config, OnFailure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::admin::{Scrape, with_admin};
use crate::common::{Client, Fixture, scratch, with};

/// A server with a trail in a directory of its own.
struct Audited {
    fixture: Fixture,
    file: PathBuf,
    _dir: TempDir,
}

impl Audited {
    async fn start(change: impl FnOnce(&mut Config)) -> Audited {
        let dir = scratch();
        let file = dir.path().join("audit.log");
        let fixture = Fixture::with(|config| {
            config.audit.sink = AuditSink::File(file.clone());
            // As the config loader does it.
            config.sandbox.roots.protected.push(file.clone());
            change(config);
        })
        .await;
        Audited { fixture, file, _dir: dir }
    }

    /// Every event, once the server has ended.
    async fn events(&self) -> Vec<Value> {
        self.fixture.server.shutdown().await;
        lines(&self.file)
    }
}

fn lines(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).expect("a trail");
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

fn of<'a>(events: &'a [Value], event: &str) -> Vec<&'a Value> {
    events.iter().filter(|value| value["event"] == event).collect()
}

#[tokio::test]
async fn each_of_fifty_mixed_launches_is_recorded_once_with_its_principal_and_its_exit() {
    let audited = Audited::start(|_| {}).await;
    let fixture = &audited.fixture;
    let mut client = fixture.client().await;
    let mut expected = BTreeMap::new();
    for number in 0..50 {
        let id = format!("p{number}");
        let cause = launch(&mut client, fixture, &id, number % 5).await;
        expected.insert(id, cause);
    }
    let events = audited.events().await;
    for (id, cause) in &expected {
        let by_id = |event| of(&events, event).into_iter().filter(|e| e["process_id"] == **id).collect();
        let launches: Vec<&Value> = by_id("launch");
        let refusals: Vec<&Value> = by_id("launch.refused");
        let exits: Vec<&Value> = by_id("exit");
        let record = match cause {
            Some(cause) => {
                assert_eq!((launches.len(), refusals.len(), exits.len()), (1, 0, 1), "{id}");
                assert_eq!(exits[0]["cause"], **cause, "{id}");
                assert!(exits[0]["exit_code"].is_i64() && exits[0]["duration_ms"].is_u64());
                assert!(launches[0]["enforcement"]["status"].is_string());
                launches[0]
            }
            None => {
                assert_eq!((launches.len(), refusals.len(), exits.len()), (0, 1, 0), "{id}");
                assert!(refusals[0]["reason"].is_string());
                refusals[0]
            }
        };
        assert_eq!(record["principal"], "local", "{id}");
        assert_eq!(record["peer"], "in process");
        assert_eq!(record["env_names"], json!(["PATH", "TERM"]), "names only");
        assert_eq!(record["cwd"], fixture.ws("").to_str().expect("UTF-8").trim_end_matches('/'));
        assert_eq!(record["metadata"], json!({ "ticket": id }));
    }
    let order: Vec<_> = events.iter().map(|event| event["event"].as_str().expect("a name")).collect();
    assert_eq!((order[0], order[1]), ("sidecar.start", "session.open"));
    assert_eq!(order[order.len() - 2..], ["session.close", "sidecar.stop"]);
}

/// One launch of each kind; gives the cause of its exit, where there is one.
async fn launch(client: &mut Client, fixture: &Fixture, id: &str, kind: usize) -> Option<&'static str> {
    let metadata = json!({ "ticket": id });
    let shell = |script: &str| with(fixture.shell(id, script), "metadata", metadata.clone());
    match kind {
        0 => {
            client.run(shell("echo out")).await;
            Some("exit")
        }
        1 => {
            client.run(with(shell("exit 3"), "tty", json!(true))).await;
            Some("exit")
        }
        2 => {
            let missing = fixture.command(id, &["/no/such/program"]);
            client.refused("process/start", with(missing, "metadata", metadata)).await;
            None
        }
        3 => {
            let mode = json!({ "mode": "no such profile" });
            client.refused("process/start", with(shell("true"), "sandbox", mode)).await;
            None
        }
        _ => {
            client.call("process/start", shell("echo up; sleep 1000")).await;
            client.wait_for(id, "up").await;
            client.call("process/terminate", json!({ "processId": id })).await;
            client.follow(id).await;
            Some("terminated")
        }
    }
}

#[tokio::test]
async fn a_launch_can_neither_read_nor_write_nor_remove_its_record() {
    let audited = Audited::start(|_| {}).await;
    let (file, fixture) = (audited.file.display(), &audited.fixture);
    let mut client = fixture.client().await;
    let attack = format!(
        "echo mine > mine && cat mine
         echo forged >> {file}; echo forged > {file}.1; : > {file}; rm -f {file}; mv {file} gone; cat {file}
         ln {file} link; truncate -s 0 {file}"
    );
    let attacked = client.run(fixture.shell("attack", &attack)).await;
    assert_eq!(attacked.out(), "mine\n", "positive control: it writes in its workspace; and reads no record");
    for (method, params) in [
        ("fs/writeFile", json!({ "path": audited.file, "dataBase64": "" })),
        ("fs/remove", json!({ "path": audited.file })),
        ("fs/readFile", json!({ "path": audited.file })),
    ] {
        client.refused(method, params).await;
    }
    // What it says cannot break out of its line either.
    let forged = "x\n{\"event\":\"launch\",\"process_id\":\"forged\"}";
    client.run(fixture.command("line", &["/bin/echo", forged])).await;
    let events = audited.events().await;
    let ids: Vec<_> = of(&events, "launch").iter().map(|event| event["process_id"].clone()).collect();
    assert_eq!(ids, ["attack", "line"]);
    assert_eq!(of(&events, "denial.suspected").len(), 1);
    assert_eq!(of(&events, "exit").len(), 2);
}

#[tokio::test]
async fn file_operations_are_recorded_and_reads_where_asked_for() {
    for reads in [false, true] {
        let audited = Audited::start(|config| config.audit.reads = reads).await;
        let fixture = &audited.fixture;
        let mut client = fixture.client().await;
        let path = |name: &str| fixture.ws(name);
        client.call("fs/createDirectory", json!({ "path": path("d") })).await;
        client.call("fs/writeFile", json!({ "path": path("d/a"), "dataBase64": "aGV5Cg==" })).await;
        client.call("fs/readFile", json!({ "path": path("d/a") })).await;
        let copy = json!({ "sourcePath": path("d/a"), "destinationPath": path("d/b"), "recursive": false });
        client.call("fs/copy", copy).await;
        client.call("fs/remove", json!({ "path": path("d") })).await;
        client.refused("fs/remove", json!({ "path": path("d"), "force": false })).await;
        let events = audited.events().await;
        let files: Vec<_> =
            events.iter().filter(|e| e["event"].as_str().is_some_and(|e| e.starts_with("fs."))).collect();
        let names: Vec<_> = files.iter().map(|event| event["event"].as_str().expect("a name")).collect();
        let mut expected = vec!["fs.mkdir", "fs.write", "fs.copy", "fs.remove", "fs.remove"];
        if reads {
            expected.insert(2, "fs.read");
        }
        assert_eq!(names, expected);
        let write = of(&events, "fs.write")[0];
        assert_eq!((&write["bytes"], &write["principal"]), (&json!(4), &json!("local")));
        assert_eq!(write["path"], path("d/a").to_str().expect("UTF-8"));
        assert_eq!(of(&events, "fs.copy")[0]["destination"], path("d/b").to_str().expect("UTF-8"));
        assert_eq!(of(&events, "fs.remove")[1]["reason"], "notFound");
    }
}

#[tokio::test]
async fn secrets_in_arguments_are_masked_and_long_ones_cut() {
    let audited = Audited::start(|config| {
        config.audit.redact = vec![r"--token[= ](\S+)".parse().expect("a pattern")];
    })
    .await;
    let fixture = &audited.fixture;
    let mut client = fixture.client().await;
    let long = "y".repeat(5000);
    let command = ["/bin/echo", "--token", "s3cret", &long];
    client.run(with(fixture.command("p", &command), "env", json!({ "MY_SECRET": "s3cret" }))).await;
    let events = audited.events().await;
    let launch = of(&events, "launch")[0];
    assert_eq!(launch["argv"][2], "[redacted]");
    assert_eq!((&launch["argv_cut"][0]["index"], &launch["argv_cut"][0]["bytes"]), (&json!(3), &json!(5000)));
    assert_eq!(launch["argv"][3].as_str().expect("text").len(), 1024);
    let text = std::fs::read_to_string(&audited.file).expect("a trail");
    assert!(!text.contains("s3cret") && text.contains("MY_SECRET"));
}

#[tokio::test]
async fn where_the_record_cannot_be_written_the_launch_is_refused_or_goes_on() {
    for (on_failure, goes_on) in [(OnFailure::Drop, true), (OnFailure::Refuse, false)] {
        let dir = scratch();
        let fixture = Fixture::with(|config| {
            // Nobody listens there.
            config.audit.sink = AuditSink::Unix(dir.path().join("socket"));
            config.audit.on_failure = on_failure;
            with_admin(config);
        })
        .await;
        let mut client = fixture.client().await;
        let failed = "sidecar_audit_events_total{outcome=\"failed\"}";
        // The session's own record: until it is known that it failed, a launch starts, and is killed.
        while Scrape::of(&fixture.server).await.get(failed) < 1.0 {}
        let touch = fixture.shell("p", "echo x > ran");
        if goes_on {
            client.run(touch).await;
        } else {
            let error = client.refused("process/start", touch).await;
            assert!(error["message"].as_str().is_some_and(|m| m.contains("audit.onFailure")), "{error}");
        }
        assert_eq!(fixture.ws("ran").exists(), goes_on);
        assert!(Scrape::of(&fixture.server).await.get(failed) >= 1.0);
        if !goes_on {
            // Once somebody listens, launches go on: what was refused before told the writer so.
            let listener = tokio::net::UnixListener::bind(dir.path().join("socket")).expect("bound");
            client.refused("process/start", fixture.command("q", &["/no/such/program"])).await;
            let (_stream, _) = listener.accept().await.expect("the writer connects");
            // The answer to the one above may have come before its record was written.
            let mut number = 0;
            while !fixture.ws("ran").exists() {
                number += 1;
                let id = client
                    .request(
                        "process/start",
                        fixture.shell(&format!("r{number}"), "echo x > ran; echo up; sleep 1000"),
                    )
                    .await;
                if client.outcome(id).await.is_ok() {
                    client.wait_for(&format!("r{number}"), "up").await;
                }
            }
        }
    }
}

#[tokio::test]
async fn a_reload_is_recorded() {
    let audited = Audited::start(|_| {}).await;
    let moved = audited.file.with_extension("moved");
    std::fs::rename(&audited.file, &moved).expect("moved");
    audited.fixture.server.reload().await;
    let events = audited.events().await;
    let names: Vec<_> = events.iter().map(|event| event["event"].as_str().expect("a name")).collect();
    assert_eq!(names, ["config.reload", "sidecar.stop"], "the moved file is let go of");
    assert_eq!(lines(&moved)[0]["event"], "sidecar.start");
}

#[tokio::test]
async fn a_session_that_changes_its_connection_leaves_a_trail() {
    let audited = Audited::start(|_| {}).await;
    let (client, session) = audited.fixture.resumable().await;
    drop(client);
    let mut client = audited.fixture.resume(&session).await;
    client.run(audited.fixture.shell("p", "exit 3")).await;
    let events = audited.events().await;
    let of_session: Vec<&str> = events
        .iter()
        .filter(|event| event["session"] == *session)
        .map(|event| event["event"].as_str().expect("an event"))
        .collect();
    let expected = ["session.open", "session.detach", "session.resume", "launch", "exit", "session.close"];
    assert_eq!(of_session, expected);
    assert_eq!(of(&events, "session.resume")[0]["client"], "test");
}
