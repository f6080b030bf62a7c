//! The stock CLI, unchanged, calls the sandbox by MCP: configured by hand, and by the plugin.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::Path;

use e2e::{Scratch, Server, programs, stock};
use serde_json::{Value, json};

const MARKETPLACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/plugin");

/// What the model does, and what it sees of it.
fn journey(server: &Server, config: &str, before: &Value) {
    fs::write(server.workspace().join("hello.txt"), "HELLO\n").unwrap();
    let escape = format!("echo x > {}/escaped", server.scratch().outside().display());
    let patch = "*** Begin Patch\n*** Update File: hello.txt\n@@\n-HELLO\n+PATCHED\n*** End Patch";
    let turns = json!([
        ["mcp__sandbox/exec_command", {"cmd": "echo out; exit 3", "yield_time_ms": 30_000}],
        ["mcp__sandbox/apply_patch", {"patch": patch}],
        ["mcp__sandbox/read_file", {"path": "hello.txt"}],
        ["mcp__sandbox/exec_command", {"cmd": escape, "yield_time_ms": 30_000}],
    ]);
    let outputs = stock::with_config(server.scratch(), &server.workspace(), config, before, &turns);
    let told = |at: usize, expected: &str| {
        let text = outputs[at].to_string();
        assert!(text.contains(expected), "{expected:?}: {text}");
    };
    told(0, "exit_code\\\":3");
    told(1, "hello.txt");
    told(2, "PATCHED");
    told(3, "ermission denied");
    assert_eq!(fs::read_to_string(server.workspace().join("hello.txt")).unwrap(), "PATCHED\n");
    assert!(!server.scratch().outside().join("escaped").exists());
    // It was the sidecar that ran them, and it knows which calls of the CLI they were.
    server.wait_for_log("\"tool\":\"exec_command\"");
    let log = server.log();
    let launch = log.lines().find(|line| line.contains("\"tool\":\"exec_command\"")).unwrap();
    let event: Value = serde_json::from_str(launch).unwrap();
    assert!(event["metadata"]["mcp"]["callId"].is_string(), "{launch}");
}

#[test]
fn configured_by_hand() {
    let server = Server::start();
    let token = server.scratch().state().join("e2e-token");
    let args = json!(["mcp", "--sidecar-url", server.url(), "--token-file", token]);
    let config = format!(
        "[mcp_servers.sandbox]\ncommand = {:?}\nargs = {args}\ndefault_tools_approval_mode = \"approve\"\n",
        programs::agent_client().display().to_string()
    );
    journey(&server, &config, &json!([]));
}

#[test]
fn by_the_plugin() {
    let server = Server::start();
    let marketplace = with_program(server.scratch());
    let settings = format!(
        "sidecar_url = {:?}\ntoken_file = {:?}\n",
        server.url(),
        server.scratch().state().join("e2e-token").display().to_string()
    );
    fs::write(server.workspace().join("agent-client.toml"), settings).unwrap();
    let before = json!([
        ["plugin", "marketplace", "add", marketplace],
        ["plugin", "add", "sandbox-sidecar@sandbox-sidecar"],
    ]);
    let config = "[plugins.\"sandbox-sidecar@sandbox-sidecar\".mcp_servers.sandbox]\ndefault_tools_approval_mode = \"approve\"\n";
    journey(&server, config, &before);
}

/// The plugin, with the path of the built program, which is on nobody's PATH yet.
fn with_program(scratch: &Scratch) -> std::path::PathBuf {
    let to = scratch.base().join("marketplace");
    copy(Path::new(MARKETPLACE), &to);
    let file = to.join("plugins/sandbox-sidecar/.mcp.json");
    let text = fs::read_to_string(&file).unwrap();
    let program = format!("{:?}", programs::agent_client().display().to_string());
    assert!(text.contains("\"agent-client\""), "{text}");
    fs::write(&file, text.replace("\"agent-client\"", &program)).unwrap();
    to
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to)
        } else {
            fs::copy(entry.path(), &to).map(drop).unwrap()
        }
    }
}
