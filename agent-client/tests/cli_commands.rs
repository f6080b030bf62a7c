//! The built binary's commands with its embedded sidecar.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

struct Place {
    workspace: TempDir,
    other: TempDir,
}

impl Place {
    fn new() -> Self {
        let make = || tempfile::Builder::new().prefix("agent-client-").tempdir_in("/var/tmp").unwrap();
        Self { workspace: make(), other: make() }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_agent-client"));
        command
            .args(arguments)
            .current_dir(&self.workspace)
            .env_clear()
            .env("HOME", self.other.path())
            .env("PATH", std::env::var_os("PATH").unwrap())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// What it prints, where it ends well.
    fn out(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.out(arguments)).unwrap()
    }

    fn feed(&self, arguments: &[&str], input: &[u8]) -> Output {
        let mut child = self.command(arguments).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        child.wait_with_output().unwrap()
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn every_command_has_help_with_an_example() {
    let place = Place::new();
    let commands = [
        "exec",
        "shell",
        "sh",
        "mcp",
        "cp",
        "push",
        "pull",
        "ls",
        "cat",
        "watch",
        "ps",
        "kill",
        "status",
        "doctor",
        "config",
        "completions",
    ];
    let help = place.out(&["--help"]);
    for command in commands {
        assert!(help.contains(&format!("  {command} ")), "{command}: {help}");
        assert!(place.out(&[command, "--help"]).contains("Example"), "{command}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let script = place.out(&["completions", shell]);
        assert!(commands.iter().all(|command| script.contains(command)), "{shell}");
    }
}

/// What agents do with a shell: `-c`, `-lc`, arguments, commands on stdin.
#[test]
fn sh_is_a_shell() {
    let place = Place::new();
    for (arguments, code, out) in [
        (&["sh", "-c", "echo out; exit 3"][..], 3, "out\n"),
        (&["sh", "-lc", "pwd | grep -c / && echo \"$0 $1\"", "a", "-v"], 0, "1\na -v\n"),
        (&["sh", "-ec", "false; echo unreached"], 1, ""),
    ] {
        let output = place.run(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
        assert_eq!(String::from_utf8_lossy(&output.stdout), out, "{arguments:?}");
    }
}

#[test]
fn exec_tells_the_outcome_as_json() {
    let place = Place::new();
    let output = place.run(&["exec", "--json", "--", "sh", "-c", "echo out; echo err >&2; exit 3"]);
    assert_eq!(output.status.code(), Some(3), "the exit code stays the command's");
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&outcome["exitCode"], &outcome["signal"], &outcome["cause"]),
        (&json!(3), &Value::Null, &json!("exit"))
    );
    assert_eq!((&outcome["stdout"], &outcome["stderr"]), (&json!("out\n"), &json!("err\n")));
    assert_eq!(outcome["truncated"], false);
    assert!(outcome["durationMs"].is_u64());
    assert_eq!(outcome["enforcement"]["profile"], "workspaceWriteNoNetwork");
    assert!(output.stderr.is_empty());

    let output = place.run(&["exec", "--json", "--", "sh", "-c", "kill -9 $$"]);
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&outcome["exitCode"], &outcome["signal"]), (&json!(137), &json!("SIGKILL")));

    let output = place.run(&["exec", "--json", "--", "printf", "a\\377b"]);
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&outcome["stdout"], &outcome["stdoutBase64"]), (&json!("a\u{fffd}b"), &json!("Yf9i")));

    let output = place.run(&["exec", "--json", "--", "head", "-c", "20000000", "/dev/zero"]);
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(outcome["truncated"], true);

    let output = place.run(&["exec", "--json", "--", "no-such-program"]);
    assert_eq!(output.status.code(), Some(127));
    let failure: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&failure["exitCode"], &failure["data"]["kind"]), (&Value::Null, &json!("spawnNotFound")));
}

#[test]
fn a_timeout_ends_the_command() {
    let place = Place::new();
    let output = place.run(&["exec", "--json", "--timeout", "50ms", "--", "sleep", "600"]);
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&outcome["cause"], &outcome["exitCode"]), (&json!("timeout"), &json!(143)));
    assert_eq!(output.status.code(), Some(143));
    for bad in ["0s", "soon"] {
        assert_eq!(place.run(&["exec", "--timeout", bad, "--", "true"]).status.code(), Some(125), "{bad}");
    }
}

#[test]
fn pipes_are_byte_clean_both_ways() {
    let place = Place::new();
    for (name, size) in [("a", 10), ("b", 3 << 20)] {
        let bytes: Vec<u8> = (0..size).map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        fs::write(place.workspace.path().join(name), bytes).unwrap();
    }
    let tar = |arguments: &[&str]| {
        Command::new("tar").args(arguments).current_dir(&place.workspace).output().unwrap().stdout
    };
    let archive = tar(&["cf", "-", "a", "b"]);
    let listed = place.feed(&["exec", "-i", "--", "tar", "tf", "-"], &archive);
    assert_eq!(listed.stdout, b"a\nb\n", "{listed:?}");
    let made = place.run(&["exec", "--", "tar", "cf", "-", "a", "b"]);
    assert!(made.stdout == archive, "the archive and nothing else: {} bytes", made.stdout.len());
}

#[test]
fn a_shell_reads_its_commands_from_a_pipe() {
    let place = Place::new();
    let output = place.feed(&["shell", "--shell", "/bin/sh", "-e", "A=1"], b"echo $A; exit 5\n");
    assert_eq!((output.stdout.as_slice(), output.status.code()), (&b"1\n"[..], Some(5)), "{output:?}");
    let output = place.feed(&["shell"], b"echo here\n");
    assert_eq!((output.stdout.as_slice(), output.status.code()), (&b"here\n"[..], Some(0)), "{output:?}");
}

#[test]
fn files_are_copied_listed_and_printed() {
    let place = Place::new();
    let tree = place.other.path().join("tree");
    fs::create_dir_all(tree.join("sub")).unwrap();
    fs::write(tree.join("sub/file"), "content").unwrap();
    fs::write(tree.join(".hidden"), "").unwrap();
    fs::write(tree.join(Path::new(OsStr::from_bytes(b"bad-\xff"))), "").unwrap();
    std::os::unix::fs::symlink("sub", tree.join("link")).unwrap();
    let tree_text = tree.to_str().unwrap();

    assert_eq!(place.out(&["cp", tree_text, ":copy"]), "");
    assert_eq!(place.out(&["cat", "copy/sub/file", ":copy/sub/file"]), "contentcontent");
    let listed = place.run(&["ls", "copy"]);
    assert_eq!(listed.stdout, b"bad-\xff\nlink\nsub\n", "{listed:?}");
    assert!(place.out(&["ls", "-a", "copy/sub", "-l"]).contains("-rw-r--r--"));
    let rows = place.json(&["ls", "--json", "copy"]);
    assert_eq!(rows[0]["name"], ".hidden");
    assert_eq!((&rows[1]["name"], &rows[1]["nameBase64"]), (&json!("bad-\u{fffd}"), &json!("YmFkLf8=")));
    assert_eq!((&rows[2]["kind"], &rows[2]["symlinkTarget"]), (&json!("symlink"), &json!("sub")));

    // The same again changes nothing; with a / it goes to the same place.
    let slash = format!("{tree_text}/");
    let report = place.json(&["cp", "--json", &slash, ":copy"]);
    assert_eq!((&report["files"], &report["unchanged"]), (&json!(0), &json!(4)), "{report}");
    place.out(&["cp", ":copy/sub/file", ":copy/second"]);
    place.out(&["cp", ":copy/second", place.other.path().to_str().unwrap()]);
    assert_eq!(fs::read_to_string(place.other.path().join("second")).unwrap(), "content");

    let outside = place.other.path().join("second");
    for (arguments, named) in [
        (&["cat", "missing"][..], "missing"),
        (&["ls", "missing"], "missing"),
        (&["cp", "missing", ":x"], "missing"),
        (&["cp", ":missing", "x"], "missing"),
        (&["cp", tree_text, "x"], ":"),
        (&["cp", tree_text, ":no/"], "no"),
        (&["cat", outside.to_str().unwrap()], outside.to_str().unwrap()),
    ] {
        let output = place.run(arguments);
        assert_eq!(output.status.code(), Some(125), "{arguments:?}: {output:?}");
        assert!(
            stderr(&output).starts_with("agent-client: ") && stderr(&output).contains(named),
            "{output:?}"
        );
    }
}

#[test]
fn what_needs_a_server_elsewhere_says_so() {
    let place = Place::new();
    for arguments in [&["push"][..], &["pull"], &["ps"], &["kill", "1"]] {
        let output = place.run(arguments);
        assert_eq!(output.status.code(), Some(125), "{arguments:?}");
        assert!(stderr(&output).contains("sidecar_url"), "{output:?}");
    }
}

#[test]
fn the_effective_config_has_origins_and_no_secrets() {
    let place = Place::new();
    let file = "client_name = 'file'\nconnect_timeout = '3s'\n[env]\nMY_TOKEN = 's3cret'\nA = '1'\n";
    fs::write(place.workspace.path().join("agent-client.toml"), file).unwrap();
    let mut command = place.command(&["config", "--json", "--client-name", "flag"]);
    let output = command.env("CODEX_EXEC_SERVER_URL", "ws://127.0.0.1:1").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains("s3cret"), "{text}");
    let rows: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(rows["client_name"], json!({ "value": "flag", "from": "--client-name" }));
    assert_eq!(rows["sidecar_url"]["from"], "CODEX_EXEC_SERVER_URL");
    assert!(rows["connect_timeout"]["from"].as_str().unwrap().ends_with("agent-client.toml"));
    assert_eq!((&rows["env.A"]["value"], &rows["env.MY_TOKEN"]["value"]), (&json!("1"), &json!("***")));
    assert!(place.out(&["config"]).contains("client_name"), "for people too");
}

#[test]
fn status_and_doctor_of_an_embedded_sidecar() {
    let place = Place::new();
    let status = place.json(&["status", "--json"]);
    assert_eq!(status["workspaceRoot"], place.workspace.path().to_str().unwrap());
    assert!(status["latencyMicros"].is_u64() && status["enforcement"]["abi"].is_u64(), "{status}");
    let steps = place.json(&["doctor", "--json"]);
    assert!(steps.as_array().unwrap().iter().all(|step| step["ok"] == true), "{steps}");
    let output = place.run(&["doctor", "--local-root", "/nowhere"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("fix: "), "{output:?}");
}
