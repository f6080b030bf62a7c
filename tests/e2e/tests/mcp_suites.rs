//! `agent-client mcp` before the official conformance suite and the MCP Inspector.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use e2e::{Mcp, Server, until};
use serde_json::{Value, json};

const BRIDGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/mcp/bridge.mjs");
const CONFORMANCE: &str = "@modelcontextprotocol/conformance/dist/index.js";
const INSPECTOR: &str = "@modelcontextprotocol/inspector/clients/launcher/build/index.js";

/// Where scripts/setup.sh puts the suites, and a node that they run on.
fn modules() -> PathBuf {
    let base = std::env::var_os("MCP_SUITES_DIR").map(PathBuf::from);
    let base =
        base.unwrap_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache/mcp-suites"));
    let modules = base.join("node_modules");
    assert!(
        modules.join(INSPECTOR).exists(),
        "scripts/setup.sh mcp-suites installs what is missing in {}",
        base.display()
    );
    modules
}

fn node() -> Command {
    Command::new(modules().join("node/bin/node"))
}

/// Why a scenario says nothing of this server.
const FIXTURE: &str = "it calls a tool that test servers alone have";
const NOT_OFFERED: &str = "it is about a capability that the server does not declare";

/// Scenarios that do not apply. Every other one that the suite has must pass.
const NOT_APPLICABLE: &[(&str, &str)] = &[
    ("logging-set-level", NOT_OFFERED),
    ("completion-complete", NOT_OFFERED),
    ("tools-call-simple-text", FIXTURE),
    ("tools-call-image", FIXTURE),
    ("tools-call-audio", FIXTURE),
    ("tools-call-embedded-resource", FIXTURE),
    ("tools-call-mixed-content", FIXTURE),
    ("tools-call-with-logging", FIXTURE),
    ("tools-call-error", FIXTURE),
    ("tools-call-with-progress", FIXTURE),
    ("tools-call-sampling", FIXTURE),
    ("tools-call-elicitation", FIXTURE),
    ("json-schema-2020-12", FIXTURE),
    ("elicitation-sep1034-defaults", FIXTURE),
    ("elicitation-sep1330-enums", FIXTURE),
    ("server-sse-polling", FIXTURE),
    ("resources-list", NOT_OFFERED),
    ("resources-read-text", NOT_OFFERED),
    ("resources-read-binary", NOT_OFFERED),
    ("resources-templates-read", NOT_OFFERED),
    ("resources-subscribe", NOT_OFFERED),
    ("resources-unsubscribe", NOT_OFFERED),
    ("prompts-list", NOT_OFFERED),
    ("prompts-get-simple", NOT_OFFERED),
    ("prompts-get-with-args", NOT_OFFERED),
    ("prompts-get-embedded-resource", NOT_OFFERED),
    ("prompts-get-with-image", NOT_OFFERED),
];

/// The bridge from the suite's transport to ours; ended on drop.
struct Bridge {
    child: Child,
    url: String,
}

impl Bridge {
    fn start(server: &Server) -> Self {
        let mcp = Mcp::command(server, &server.workspace());
        let mut command = node();
        command.arg(BRIDGE).arg(modules()).arg(mcp.get_program()).args(mcp.get_args());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        assert!(url.starts_with("http://127.0.0.1:"), "{url:?}");
        Self { child, url: url.trim_end().to_owned() }
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn conformance(args: &[&str]) -> Output {
    node().arg(modules().join(CONFORMANCE)).args(args).output().unwrap()
}

#[test]
fn every_conformance_scenario_that_applies_passes() {
    let listed = conformance(&["list"]);
    let listed = String::from_utf8(listed.stdout).unwrap();
    let servers = listed.split("Client scenarios").next().unwrap();
    let scenarios: Vec<_> = servers
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- ")?.split_whitespace().next())
        .collect();
    for (name, why) in NOT_APPLICABLE {
        assert!(scenarios.contains(name), "the suite has no {name} any more ({why})");
    }
    let applicable: Vec<_> =
        scenarios.iter().filter(|name| NOT_APPLICABLE.iter().all(|(other, _)| other != *name)).collect();
    assert!(applicable.contains(&&"tools-list"), "{applicable:?}");
    let server = Server::start();
    let bridge = Bridge::start(&server);
    let results = server.scratch().state();
    for name in applicable {
        let args =
            ["server", "--url", &bridge.url, "--scenario", name, "--output-dir", results.to_str().unwrap()];
        let output = conformance(&args);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{name}: {text}{}", String::from_utf8_lossy(&output.stderr));
        assert!(text.contains(" 0 failed"), "{name}: {text}");
        println!("{name}: passed");
    }
}

/// Runs the Inspector's command line once against a new `agent-client mcp`.
fn inspector(server: &Server, args: &[&str]) -> Output {
    let mcp = Mcp::command(server, &server.workspace());
    let mut command = node();
    command.arg(modules().join(INSPECTOR)).arg("--cli").arg(mcp.get_program()).args(mcp.get_args());
    command.args(["--format", "json"]).args(args).env("HOME", server.scratch().home());
    command.output().unwrap()
}

/// The result of a call that the Inspector makes.
fn called(server: &Server, tool: &str, arguments: &Value) -> Value {
    let arguments = arguments.to_string();
    let output =
        inspector(server, &["--method", "tools/call", "--tool-name", tool, "--tool-args-json", &arguments]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    let mut answer: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{tool}: {e}: {stderr} {output:?}"));
    match answer.get_mut("result") {
        Some(result) => result.take(),
        None => answer,
    }
}

#[test]
fn the_inspector_lists_the_tools_and_finds_nothing_wrong_with_them() {
    let server = Server::start();
    let output = inspector(&server, &["--method", "tools/list", "--strict"]);
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}{stderr}");
    assert!(!stderr.contains("issue"), "{stderr}");
    for tool in
        ["exec_command", "write_stdin", "read_file", "write_file", "apply_patch", "list_dir", "search"]
    {
        assert!(stdout.contains(&format!("\"{tool}\"")), "{stdout}");
    }
}

#[test]
fn the_inspector_calls_each_tool() {
    let server = Server::start();
    let patch = "*** Begin Patch\n*** Update File: f\n@@\n-old\n+new\n*** End Patch";
    for (tool, arguments, expected) in [
        ("exec_command", json!({"cmd": "echo hello", "yield_time_ms": 30000}), "hello"),
        ("write_file", json!({"path": "f", "content": "old\n"}), "Created f"),
        ("read_file", json!({"path": "f"}), "old"),
        ("apply_patch", json!({"patch": patch}), "M f"),
        ("search", json!({"pattern": "new"}), "f:1: new"),
        ("list_dir", json!({}), "f\n"),
    ] {
        let result = called(&server, tool, &arguments);
        assert_ne!(result["isError"], true, "{tool}: {result}");
        let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{tool}: {result}"));
        assert!(text.contains(expected), "{tool}: {text}");
    }
    // Each run has a server of its own, so there is no session to write to.
    let result = called(&server, "write_stdin", &json!({"session_id": 1}));
    assert_eq!(result["isError"], true, "{result}");
    assert!(result["content"][0]["text"].as_str().unwrap().contains("run the command again"), "{result}");
}

#[test]
fn the_inspector_gives_bad_arguments() {
    let server = Server::start();
    for (tool, arguments, expected) in [
        ("exec_command", json!({"cmd": 1}), "bad arguments"),
        ("read_file", json!({}), "path"),
        ("apply_patch", json!({"patch": "nonsense"}), "*** Begin Patch"),
    ] {
        let result = called(&server, tool, &arguments).to_string();
        assert!(result.contains("\"isError\":true") && result.contains(expected), "{tool}: {result}");
    }
    let output = inspector(&server, &["--method", "tools/call", "--tool-name", "nonsense"]);
    assert!(!output.status.success());
}

/// Whoever stops the Inspector stops the command.
#[tokio::test]
async fn the_inspector_is_stopped() {
    let server = Server::start();
    let mcp = Mcp::command(&server, &server.workspace());
    let mut command = node();
    command.arg(modules().join(INSPECTOR)).arg("--cli").arg(mcp.get_program()).args(mcp.get_args());
    let script = r#"{"cmd": "echo $$ > pid.tmp; mv pid.tmp pid; sleep 600; true", "yield_time_ms": 30000}"#;
    command.args(["--method", "tools/call", "--tool-name", "exec_command", "--tool-args-json", script]);
    command.env("HOME", server.scratch().home()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut running = command.spawn().unwrap();
    let pid = server.workspace().join("pid");
    until("the command's start", || pid.exists()).await;
    let process = PathBuf::from(format!("/proc/{}", std::fs::read_to_string(&pid).unwrap().trim()));
    assert!(process.exists());
    let interrupt = nix::unistd::Pid::from_raw(running.id().cast_signed());
    nix::sys::signal::kill(interrupt, nix::sys::signal::Signal::SIGINT).unwrap();
    until("the command's end", || !process.exists()).await;
    running.wait().unwrap();
}
