//! The stock CLI through the gateway, in a directory that the sidecar does not have.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::Path;

use e2e::gateway::{Gateway, TOKEN, apart};
use e2e::stock::{self, LONG, PATCH, SHORT, assert_exit, text};
use e2e::{Server, programs};
use serde_json::json;

fn journey(server: &Server, local: &Path, environments: &str) {
    let turns = json!([
        ["exec_command", {"cmd": "pwd; cat AGENTS.md; exit 3", "yield_time_ms": LONG}],
        ["exec_command", {"cmd": "printf 'name? '; read n; echo \"hello $n\"; exit 4", "tty": true, "yield_time_ms": SHORT}],
        ["write_stdin", {"session_id": "$SID", "chars": "bob\n", "yield_time_ms": LONG}],
        ["exec_command", {"cmd": PATCH, "yield_time_ms": LONG}],
        ["exec_command", {"cmd": "cat new.txt hello.txt; echo inside > inside.txt", "yield_time_ms": LONG}],
        ["exec_command", {"cmd": "seq 1 200000", "yield_time_ms": LONG}],
    ]);
    let outputs = stock::over_environments(server.scratch(), local, environments, &turns);
    let workspace = server.workspace();
    assert_exit(&outputs[0], 3, &format!("{}\nSpeak plainly.\n", workspace.display()));
    assert!(text(&outputs[1]).contains("Process running with session ID"), "{}", outputs[1]);
    assert_exit(&outputs[2], 4, "hello bob\r\n");
    assert!(text(&outputs[3]).contains("Success. Updated the following files"), "{}", outputs[3]);
    assert_exit(&outputs[4], 0, "NEW\nHELLO-PATCHED\n");
    assert!(text(&outputs[5]).ends_with("\n199999\n200000\n"), "the last lines are there");
    let read = |name: &str| fs::read_to_string(workspace.join(name)).unwrap();
    assert_eq!(read("new.txt"), "NEW\n");
    assert_eq!(read("hello.txt"), "HELLO-PATCHED\n");
    assert_eq!(read("inside.txt"), "inside\n");
    assert_eq!(fs::read_dir(local).unwrap().count(), 0, "nothing lands on the client's side");
}

#[tokio::test]
async fn the_stock_cli_starts_it_as_a_program() {
    let (server, local) = apart();
    let token = server.scratch().state().join("e2e-token");
    let metrics = server.scratch().state().join("gateway.prom");
    let quoted = |text: &str| format!("{text:?}");
    let args: Vec<String> = [
        "gateway",
        "--sidecar-url",
        server.url(),
        "--token-file",
        token.to_str().unwrap(),
        "--local-root",
        local.to_str().unwrap(),
        "--metrics-file",
        metrics.to_str().unwrap(),
    ]
    .map(quoted)
    .into();
    let environments = format!(
        "default = \"box\"\ninclude_local = false\n[[environments]]\nid = \"box\"\nprogram = {:?}\nargs = [{}]\n",
        programs::agent_client().display().to_string(),
        args.join(", ")
    );
    journey(&server, &local, &environments);
    // The CLI has ended, and the gateway with it, which takes a moment more than the CLI.
    e2e::until("the gateway's metrics", || metrics.exists()).await;
    let text = fs::read_to_string(&metrics).unwrap();
    assert!(text.contains(r#"agent_client_launches_total{outcome="started",tty="true"} 1"#), "{text}");
}

#[test]
fn the_stock_cli_connects_to_it_with_its_own_token() {
    let (server, local) = apart();
    let gateway = Gateway::start(server.url(), server.scratch(), &local, &[]);
    let environments = format!(
        "default = \"box\"\ninclude_local = false\n[[environments]]\nid = \"box\"\nurl = \"{}\"\nauth_bearer_token = \"{TOKEN}\"\n",
        gateway.url()
    );
    journey(&server, &local, &environments);
}
