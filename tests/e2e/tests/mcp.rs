//! `agent-client mcp`, driven by a client that hides nothing.

use std::fs;
use std::path::Path;

use e2e::client::decode;
use e2e::mcp::text;
use e2e::{Mcp, PNG, Server, until};
use serde_json::{Value, json};

const NO_ARGS: &[&str] = &[];

/// The longest window of a command; one that ends sooner is answered sooner.
const LONG: u64 = 30_000;

fn start() -> (Server, Mcp) {
    let server = Server::start();
    let mcp = Mcp::start(&server, NO_ARGS);
    (server, mcp)
}

fn sh(line: &str) -> Value {
    json!({"cmd": line, "yield_time_ms": LONG})
}

#[test]
fn what_a_client_sees_first() {
    let (server, mut mcp) = start();
    assert_eq!(mcp.greeting["serverInfo"]["name"], "agent-client");
    assert!(mcp.greeting["capabilities"]["experimental"]["codex/sandbox-state"].is_object());
    let root = server.workspace().display().to_string();
    assert!(mcp.greeting["instructions"].as_str().unwrap().contains(&root), "{}", mcp.greeting);
    let listed = mcp.request("tools/list", json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    let expected =
        ["exec_command", "write_stdin", "read_file", "write_file", "apply_patch", "list_dir", "search"];
    assert_eq!(names, expected);
    for tool in tools {
        let only_looks = ["read_file", "list_dir", "search"].contains(&tool["name"].as_str().unwrap());
        assert_eq!(tool["annotations"]["readOnlyHint"], only_looks, "{tool}");
        assert_eq!(tool["annotations"]["destructiveHint"], !only_looks, "{tool}");
    }
    let unknown = mcp.request("tools/call", json!({"name": "nonsense", "arguments": {}}));
    assert!(unknown["error"]["message"].as_str().unwrap().contains("exec_command"), "{unknown}");
    assert_eq!(mcp.end(), Some(0), "it ends with its client");
}

#[test]
fn commands() {
    let (_server, mut mcp) = start();
    let window = mcp.done("exec_command", sh("echo out; echo err >&2; exit 3"));
    assert_eq!(window["exit_code"], 3);
    let output = window["output"].as_str().unwrap();
    assert!(output.contains("out\n") && output.contains("err\n"), "{output}");
    let result = mcp.call("exec_command", json!({"argv": ["echo", "$HOME"], "yield_time_ms": LONG}));
    assert!(
        text(&result).ends_with("Output:\n$HOME\n") && text(&result).contains("exited with code 0"),
        "{result}"
    );
    let asks = "printf 'name? '; read n; echo \"hello $n\"; exit 4";
    let window = mcp.done("exec_command", json!({"cmd": asks, "tty": true, "yield_time_ms": 250}));
    let session = window["session_id"].as_u64().unwrap();
    let window =
        mcp.done("write_stdin", json!({"session_id": session, "chars": "bob\n", "yield_time_ms": LONG}));
    assert_eq!(window["exit_code"], 4, "{window}");
    assert!(window["output"].as_str().unwrap().contains("hello bob"), "{window}");
    let all = mcp.done("exec_command", sh("seq 1 200000"));
    let output = all["output"].as_str().unwrap();
    assert!(output.len() < 50_000 && output.ends_with("\n199999\n200000\n"), "{}", output.len());
    let limited =
        mcp.done("exec_command", json!({"cmd": "sleep 600", "timeout_ms": 100, "yield_time_ms": LONG}));
    assert!(limited["notes"][0].as_str().unwrap().contains("its time was over"), "{limited}");
}

#[test]
fn files() {
    let (server, mut mcp) = start();
    // Until then there may be a file of its own in the workspace, with which it tries what the sandbox lets through.
    server.wait_for_log("\"ready\"");
    let at = |path: &str| server.workspace().join(path);
    let written = mcp.done("write_file", json!({"path": "src/a.txt", "content": "one\ntwo\nthree\n"}));
    assert_eq!(written, json!({"path": "src/a.txt", "bytes": 14, "created": true}));
    assert_eq!(fs::read_to_string(at("src/a.txt")).unwrap(), "one\ntwo\nthree\n");
    let read = mcp.done("read_file", json!({"path": at("src/a.txt"), "offset": 2, "limit": 1}));
    assert_eq!(
        (&read["content"], &read["next_offset"], &read["total_lines"]),
        (&json!("two\n"), &json!(3), &json!(3))
    );
    fs::write(at("red.png"), decode(&json!(PNG))).unwrap();
    let image = mcp.call("read_file", json!({"path": "red.png"}));
    assert_eq!(image["content"][0], json!({"type": "image", "data": PNG, "mimeType": "image/png"}));
    fs::write(at("data"), [0xff, 0, 1]).unwrap();
    assert!(mcp.refused("read_file", json!({"path": "data"})).contains("xxd"));
    assert!(mcp.refused("read_file", json!({"path": "missing"})).contains("missing"));
    std::os::unix::fs::symlink("a.txt", at("src/link")).unwrap();
    let listed = mcp.done("list_dir", json!({"path": ".", "depth": 2}));
    let entries: Vec<_> =
        listed["entries"].as_array().unwrap().iter().map(|e| e["path"].as_str().unwrap()).collect();
    assert_eq!(entries, ["data", "red.png", "src", "src/a.txt", "src/link"]);
    assert_eq!(listed["entries"][4]["target"], "a.txt");
    let piece = mcp.done("list_dir", json!({"offset": 2, "limit": 1}));
    assert_eq!((&piece["entries"][0]["path"], &piece["next_offset"]), (&json!("red.png"), &json!(3)));
    fs::write(at(".gitignore"), "ignored/\n").unwrap();
    fs::create_dir(at("ignored")).unwrap();
    fs::write(at("ignored/b.txt"), "two\n").unwrap();
    let found = mcp.done("search", json!({"pattern": "^t(wo|x)$"}));
    assert_eq!(found["matches"], json!([{"path": "src/a.txt", "line": 2, "text": "two"}]), "{found}");
    let found = mcp.done("search", json!({"pattern": "two", "include_ignored": true, "limit": 1}));
    assert_eq!(
        (&found["matches"][0]["path"], &found["truncated"]),
        (&json!("ignored/b.txt"), &json!(true)),
        "{found}"
    );
    let found =
        mcp.done("search", json!({"pattern": "T(", "literal": true, "ignore_case": true, "glob": "*.txt"}));
    assert_eq!((&found["matches"], &found["files"]), (&json!([]), &json!(1)));
    assert!(mcp.refused("search", json!({"pattern": "("})).contains("literal"));
}

#[test]
fn a_patch_is_applied_whole_or_not_at_all() {
    let (server, mut mcp) = start();
    let at = |path: &str| server.workspace().join(path);
    fs::write(at("old.sh"), "#!/bin/sh\necho old\n").unwrap();
    fs::set_permissions(at("old.sh"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    fs::write(at("gone"), "x\n").unwrap();
    let patch = "*** Begin Patch\n*** Add File: new/file.txt\n+hello\n*** Update File: old.sh\n*** Move to: new/new.sh\n\
        @@\n #!/bin/sh\n-echo old\n+echo new\n*** Delete File: gone\n*** End Patch";
    let done = mcp.done("apply_patch", json!({"patch": patch}));
    assert_eq!(done, json!({"added": ["new/file.txt"], "modified": ["new/new.sh"], "deleted": ["gone"]}));
    assert_eq!(fs::read_to_string(at("new/file.txt")).unwrap(), "hello\n");
    assert_eq!(
        mcp.done("exec_command", json!({"argv": ["./new/new.sh"], "yield_time_ms": LONG}))["output"],
        "new\n"
    );
    assert!(!at("gone").exists() && !at("old.sh").exists());

    // The second file's hunk does not fit.
    let misfit =
        "*** Begin Patch\n*** Add File: more\n+x\n*** Update File: new/file.txt\n@@\n-bye\n+x\n*** End Patch";
    let told = mcp.refused("apply_patch", json!({"patch": misfit}));
    assert!(told.starts_with("Nothing was changed. new/file.txt: hunk 1 (line 5 of the patch)"), "{told}");
    assert!(told.contains("no line of the file is \"bye\""), "{told}");
    assert!(!at("more").exists());

    // The second file cannot be written, which only the write tells.
    let outside = server.scratch().outside().join("escaped");
    let refused = format!(
        "*** Begin Patch\n*** Add File: {0}/in/deep\n+x\n*** Update File: {0}/new/file.txt\n@@\n-hello\n+bye\n\
         *** Add File: {1}\n+x\n*** End Patch",
        server.workspace().display(),
        outside.display()
    );
    let told = mcp.refused("apply_patch", json!({"patch": refused}));
    assert!(told.starts_with("Nothing was changed. ") && told.contains("escaped"), "{told}");
    assert!(!outside.exists() && !at("in").exists());
    assert_eq!(fs::read_to_string(at("new/file.txt")).unwrap(), "hello\n", "it was put back");
    let rest = refused.replace(&format!("*** Add File: {}\n+x\n", outside.display()), "");
    mcp.done("apply_patch", json!({"patch": rest}));
    assert_eq!(fs::read_to_string(at("new/file.txt")).unwrap(), "bye\n", "the rest of the patch was good");
}

#[test]
fn failures_name_the_remedy() {
    let (server, mut mcp) = start();
    for (tool, arguments, expected) in [
        ("exec_command", json!({}), "give either cmd"),
        ("exec_command", json!({"cmd": "true", "argv": ["true"]}), "give either cmd"),
        ("exec_command", json!({"cmd": 1}), "bad arguments"),
        ("exec_command", json!({"cmd": "true", "comand": "x"}), "comand"),
        ("exec_command", json!({"argv": ["no-such-program"]}), "no-such-program"),
        ("exec_command", json!({"cmd": "true", "workdir": "/etc"}), "outside of the workspace root"),
        ("exec_command", json!({"cmd": "true", "profile": "readOnly"}), "--allow-profile"),
        ("write_stdin", json!({"session_id": 99}), "run the command again"),
        ("read_file", json!({"path": 1}), "bad arguments"),
        ("list_dir", json!({"path": "nowhere"}), "nowhere"),
        ("apply_patch", json!({"patch": "x"}), "*** Begin Patch"),
        ("write_file", json!({"path": "a"}), "content"),
    ] {
        let told = mcp.refused(tool, arguments.clone());
        assert!(told.contains(expected), "{tool} {arguments}: {told}");
    }
    let closed = mcp.done("exec_command", json!({"cmd": "sleep 600", "yield_time_ms": 250}));
    let session = closed["session_id"].clone();
    assert!(mcp.refused("write_stdin", json!({"session_id": session, "chars": "x"})).contains("tty: true"));
    let outside = server.scratch().outside().join("f");
    assert!(mcp.refused("write_file", json!({"path": outside, "content": "x"})).contains("ermission denied"));
    fs::write(&outside, "the mode bits do not forbid it").unwrap();
}

#[tokio::test]
async fn a_cancelled_command_is_ended() {
    let (server, mut mcp) = start();
    let pid = server.workspace().join("pid");
    let call = json!({"name": "exec_command", "arguments": sh("echo $$ > pid.tmp; mv pid.tmp pid; sleep 600; true")});
    let id = mcp.ask("tools/call", call);
    until("the command's start", || pid.exists()).await;
    let process = format!("/proc/{}", fs::read_to_string(&pid).unwrap().trim());
    assert!(Path::new(&process).exists());
    mcp.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
    until("the command's end", || !Path::new(&process).exists()).await;
    // The server goes on.
    assert_eq!(mcp.done("exec_command", sh("echo on"))["output"], "on\n");
    assert!(mcp.unclaimed().all(|message| message["id"] != id), "a cancelled request is not answered");
}

#[test]
fn progress_tells_what_a_command_writes() {
    let (server, mut mcp) = start();
    let script = "echo begun; while ! test -e go; do sleep .05; done; echo ended";
    let call = json!({"name": "exec_command", "arguments": sh(script), "_meta": {"progressToken": "p1"}});
    let id = mcp.ask("tools/call", call);
    let progress = mcp.wait_for(|message| message["method"] == "notifications/progress");
    assert_eq!(
        progress["params"],
        json!({"progressToken": "p1", "progress": 6.0, "message": "begun"}),
        "{progress}"
    );
    fs::write(server.workspace().join("go"), "").unwrap();
    assert_eq!(mcp.answer(id)["result"]["structuredContent"]["output"], "begun\nended\n");
    mcp.done("exec_command", sh("echo quiet"));
    let others = mcp.unclaimed().filter(|message| message["params"]["progressToken"] != "p1").count();
    assert_eq!(others, 0, "nobody asked for it");
}

/// What the stock CLI sends for its mode `read-only`.
fn read_only(server: &Server) -> Value {
    let root = json!({"type": "special", "value": {"kind": "root"}});
    json!({"codex/sandbox-state": {
        "permissionProfile": {
            "type": "managed",
            "file_system": {"type": "restricted", "entries": [{"path": root, "access": "read"}]},
            "network": "restricted"
        },
        "codexLinuxSandboxExe": null,
        "sandboxCwd": format!("file://{}", server.workspace().display()),
        "useLegacyLandlock": false
    }})
}

#[test]
fn a_client_s_own_sandbox_tightens_ours() {
    let (server, mut mcp) = start();
    let state = read_only(&server);
    let write = |mcp: &mut Mcp, meta: Value| {
        let by_command = mcp.call_with("exec_command", sh("echo x > by-command"), meta.clone());
        let by_tool = mcp.call_with("write_file", json!({"path": "by-tool", "content": "x"}), meta);
        let written =
            ["by-command", "by-tool"].map(|name| fs::remove_file(server.workspace().join(name)).is_ok());
        assert_eq!(by_command["structuredContent"]["exit_code"] == 0, written[0], "{by_command}");
        assert_eq!(by_tool["isError"] == false, written[1], "{by_tool}");
        assert_eq!(written[0], written[1], "both ways are under the same rules");
        written[0]
    };
    assert!(write(&mut mcp, json!({})), "the control");
    assert!(!write(&mut mcp, state.clone()));
    assert!(write(&mut mcp, json!({"codex/sandbox-state": {"permissionProfile": {"type": "disabled"}}})));
    let read = mcp.call_with("exec_command", sh("cat /etc/hostname"), state);
    assert_eq!(read["structuredContent"]["exit_code"], 0, "{read}");
    // The older way, by a request.
    let cwd = server.workspace();
    let update = |policy: &str| json!({"sandboxPolicy": {"type": policy}, "codexLinuxSandboxExe": null, "sandboxCwd": cwd});
    assert!(mcp.request("codex/sandbox-state/update", update("read-only"))["error"].is_null());
    assert!(!write(&mut mcp, json!({})));
    assert!(mcp.request("codex/sandbox-state/update", update("workspace-write"))["error"].is_null());
    assert!(write(&mut mcp, json!({})));
    // What is not understood is not passed over.
    assert!(mcp.request("codex/sandbox-state/update", update("new-mode"))["error"]["message"].is_string());
    assert!(mcp.refused("exec_command", sh("true")).contains("codex/sandbox-state"));
}

#[test]
fn a_client_s_own_sandbox_never_loosens_ours() {
    let server = Server::start();
    let mut mcp = Mcp::start(&server, &["--profile", "readOnly"]);
    let mut state = read_only(&server);
    state["codex/sandbox-state"]["permissionProfile"]["file_system"] = json!({"type": "unrestricted"});
    state["codex/sandbox-state"]["permissionProfile"]["network"] = json!("enabled");
    for meta in [
        json!({}),
        state.clone(),
        json!({"codex/sandbox-state": {"permissionProfile": {"type": "disabled"}}}),
    ] {
        let refused = mcp.call_with("exec_command", sh("echo x > f"), meta);
        assert_ne!(refused["structuredContent"]["exit_code"], 0, "{refused}");
    }
    // The control: under another profile the same state lets it write, and still without a network.
    let mut mcp = Mcp::start(&server, NO_ARGS);
    let connect = "echo x > f && exec 3<>/dev/tcp/127.0.0.1/1";
    let bash = |line: &str| json!({"argv": ["bash", "-c", line], "yield_time_ms": LONG});
    let done = mcp.call_with("exec_command", bash(connect), state.clone());
    assert!(server.workspace().join("f").exists());
    assert!(
        text(&done).to_lowercase().contains("not permitted") || text(&done).contains("ermission"),
        "{done}"
    );
    let mut mcp = Mcp::start(&server, &["--profile", "workspaceWrite"]);
    let done = mcp.call_with("exec_command", bash(connect), state);
    assert!(text(&done).contains("Connection refused"), "the network is there: {done}");
}

#[test]
fn calls_name_profiles_where_they_may() {
    let server = Server::start();
    let mut mcp = Mcp::start(&server, &["--allow-profile", "readOnly", "--allow-profile", "workspaceWrite"]);
    let listed = mcp.request("tools/list", json!({}));
    let profile = &listed["result"]["tools"][0]["inputSchema"]["properties"]["profile"];
    assert_eq!(profile["enum"], json!(["readOnly", "workspaceWrite"]), "{profile}");
    let mut write = |profile: &str| {
        let arguments = json!({"cmd": "echo x > f", "yield_time_ms": LONG, "profile": profile});
        mcp.done("exec_command", arguments)["exit_code"].clone()
    };
    assert_eq!(write("workspaceWrite"), 0);
    assert_ne!(write("readOnly"), 0);
    let told = mcp.refused("write_file", json!({"path": "f", "content": "x", "profile": "none"}));
    assert!(told.contains("readOnly, workspaceWrite"), "{told}");
}

#[test]
fn the_audit_trail_knows_the_call() {
    let (server, mut mcp) = start();
    let ids = json!({"callId": "call-1", "threadId": "thread-1", "progressToken": 7});
    mcp.call_with("exec_command", sh("true"), ids);
    server.wait_for_log("call-1");
    let line = server.log().lines().find(|line| line.contains("call-1")).unwrap().to_owned();
    let event: Value = serde_json::from_str(&line).unwrap();
    let expected =
        json!({"mcp": {"callId": "call-1", "threadId": "thread-1", "tool": "exec_command", "client": "e2e"}});
    assert_eq!(event["metadata"], expected, "{line}");
}

/// The model's paths are those of the sandbox, the client's those of its own side.
#[test]
fn paths_of_both_sides_lead_to_the_same_file() {
    let server = Server::start();
    let local = server.scratch().base().join("elsewhere");
    fs::create_dir(&local).unwrap();
    let mut mcp = Mcp::spawn(Mcp::command(&server, &local));
    fs::write(server.workspace().join("f"), "there\n").unwrap();
    for path in ["f".into(), local.join("f"), server.workspace().join("f")] {
        assert_eq!(mcp.done("read_file", json!({"path": path}))["content"], "there\n", "{}", path.display());
    }
    for workdir in [local.clone(), server.workspace(), ".".into()] {
        let window =
            mcp.done("exec_command", json!({"cmd": "cat f", "workdir": workdir, "yield_time_ms": LONG}));
        assert_eq!(window["output"], "there\n", "{window}");
    }
    assert_eq!(fs::read_dir(&local).unwrap().count(), 0);
}
