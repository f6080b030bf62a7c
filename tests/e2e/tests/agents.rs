//! The pages of docs/agents/, followed in a new home.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::page::{Moment, Reader};
use e2e::server::{TOKEN, clean_environment};
use e2e::{Mcp, Scratch, Server, programs};
use serde_json::{Value, json};

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const DRIVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/stock_cli.py");

/// What every page assumes: a sidecar, its token in the home, a project there, and the programs on the PATH.
fn start() -> (Server, Reader) {
    let scratch = Scratch::new();
    let socket = format!("unix://{}", scratch.state().join("api.sock").display());
    let server = Server::builder().scratch(scratch).arg("--listen").arg(socket).start();
    let scratch = server.scratch();
    fs::create_dir(scratch.home().join("project")).unwrap();
    fs::write(scratch.home().join("token"), TOKEN).unwrap();
    let path = format!("{}:{}", bin(scratch).display(), std::env::var("PATH").unwrap());
    let reader = Reader::new(&scratch.home(), Path::new(REPOSITORY))
        .variable("PATH", path)
        .here("ws://127.0.0.1:8790", server.url())
        .here(
            "unix:/run/sandbox-sidecar/api.sock",
            &format!("unix:{}", scratch.state().join("api.sock").display()),
        )
        .here("the token", TOKEN)
        .here("cd /workspace", &format!("cd {}", server.workspace().display()));
    (server, reader)
}

/// A folder with the programs, and with stand-ins for those that need a cluster or a model.
fn bin(scratch: &Scratch) -> PathBuf {
    let bin = scratch.state().join("bin");
    fs::create_dir(&bin).unwrap();
    symlink(programs::agent_client(), bin.join("agent-client")).unwrap();
    symlink(programs::sandbox_sidecar(), bin.join("sandbox-sidecar")).unwrap();
    // It runs here what it is asked to run in the pod.
    script(&bin, "kubectl", "while [ \"$1\" != -- ]; do shift; done; shift; exec \"$@\"");
    let cli = std::env::var_os("STOCK_CLI_DIR").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache/stock-cli"),
        PathBuf::from,
    );
    let turns = scratch.state().join("cli-turns.json");
    script(
        &bin,
        "codex",
        &format!("STOCK_CLI_DIR={} exec python3 {DRIVER} --as-cli {} \"$@\"", cli.display(), turns.display()),
    );
    bin
}

fn script(bin: &Path, name: &str, text: &str) {
    let file = bin.join(name);
    fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
}

fn page(name: &str) -> String {
    fs::read_to_string(Path::new(REPOSITORY).join("docs").join(name)).unwrap()
}

/// Follows a page on which the CLI is asked for a note, by a model that calls `tool` for it.
fn with_a_model(name: &str, tool: &str) {
    let (server, mut reader) = start();
    let turns = json!([[tool, {"cmd": "echo from the model > note.txt", "yield_time_ms": 30_000}]]);
    fs::write(server.scratch().state().join("cli-turns.json"), turns.to_string()).unwrap();
    let note = server.workspace().join("note.txt");
    let mut notes = 0;
    reader.follow_watched(&page(name), |moment, script| match moment {
        _ if !script.contains("Write a note.") => {}
        // One that is there already would prove nothing.
        Moment::Before => drop(fs::remove_file(&note)),
        Moment::After => {
            assert_eq!(fs::read_to_string(&note).unwrap(), "from the model\n", "{script}");
            notes += 1;
        }
    });
    assert!(notes > 1, "{notes}");
}

#[test]
fn the_stock_cli_by_remote_environment() {
    with_a_model("agents/stock-cli.md", "exec_command");
}

#[test]
fn the_stock_cli_by_mcp() {
    with_a_model("agents/stock-cli-mcp.md", "mcp__sandbox/exec_command");
}

#[test]
fn a_plain_shell_tool() {
    let (server, mut reader) = start();
    reader.follow(&page("agents/shell-tool.md"));
    assert_eq!(fs::read_to_string(server.workspace().join("note.txt")).unwrap(), "from the sandbox\n");
}

#[test]
fn a_python_agent() {
    let (server, mut reader) = start();
    reader.follow(&page("agents/python.md"));
    assert!(server.workspace().join("note.txt").exists());
}

/// The servers that a client's files name: started as the client would, they do their work.
fn configured(name: &str, files: &[(&str, &str)]) -> Server {
    let (server, mut reader) = start();
    reader.follow(&page(name));
    let home = server.scratch().home();
    for (file, key) in files {
        let config: Value = serde_json::from_str(&fs::read_to_string(home.join(file)).unwrap()).unwrap();
        let entry = &config[key]["sandbox"];
        assert_eq!(entry["command"], "agent-client", "{file}: {config}");
        let mut command = Command::new(programs::agent_client());
        clean_environment(&mut command, server.scratch());
        let args = entry["args"].as_array().unwrap();
        command.args(args.iter().map(|arg| arg.as_str().unwrap())).current_dir(home.join("project"));
        let mut mcp = Mcp::spawn(command);
        mcp.done("write_file", json!({"path": "note.txt", "content": "note"}));
        fs::remove_file(server.workspace().join("note.txt")).unwrap();
    }
    server
}

#[test]
fn claude_code() {
    let server = configured("agents/claude-code.md", &[("project/.mcp.json", "mcpServers")]);
    let settings = server.scratch().home().join("project/.claude/settings.json");
    let settings: Value = serde_json::from_str(&fs::read_to_string(settings).unwrap()).unwrap();
    let denied = settings["permissions"]["deny"].as_array().unwrap();
    for tool in ["Bash", "Read", "Edit", "Write", "NotebookEdit", "Glob", "Grep"] {
        assert!(denied.contains(&json!(tool)), "{tool}: {settings}");
    }
    assert_eq!(settings["permissions"]["allow"], json!(["mcp__sandbox"]));
}

#[test]
fn other_mcp_clients() {
    let files = [
        ("project/.cursor/mcp.json", "mcpServers"),
        ("project/.vscode/mcp.json", "servers"),
        ("project/.zed/settings.json", "context_servers"),
    ];
    configured("agents/mcp-clients.md", &files);
}

/// The pages that show how to begin, each with what it starts itself.
#[test]
fn five_minutes_locally() {
    let scratch = Scratch::new();
    let path = format!("{}:{}", bin(&scratch).display(), std::env::var("PATH").unwrap());
    let port = free_port();
    let mut reader = Reader::new(&scratch.home(), &scratch.home())
        .variable("PATH", path)
        .variable("SANDBOX_SIDECAR_ADMIN_LISTEN", "")
        .here("127.0.0.1:8790", &format!("127.0.0.1:{port}"));
    reader.follow(&page("start-local.md"));
}

/// A port that nobody has now.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Each page is followed by one of these tests.
#[test]
fn every_page_is_followed() {
    let source = include_str!("agents.rs");
    for entry in fs::read_dir(Path::new(REPOSITORY).join("docs/agents")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        // Its example is run by a test of the library.
        assert!(name == "rust.md" || source.contains(&format!("\"agents/{name}\"")), "{name}");
    }
}
