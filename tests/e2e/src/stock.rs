//! The stock CLI, unchanged, with a scripted model.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::{GIVE_UP, Scratch, Server};

/// Adds new.txt, and changes hello.txt by what the CLI itself understands as a patch.
pub const PATCH: &str = "apply_patch <<'EOF'
*** Begin Patch
*** Add File: new.txt
+NEW
*** Update File: hello.txt
@@
-HELLO-FILE
+HELLO-PATCHED
*** End Patch
EOF";

/// The CLI waits for the end of a command at most this long, in milliseconds; one that ends sooner is answered sooner.
pub const LONG: u64 = 30_000;
/// The window of a command that does not end by itself: the CLI waits it out in full.
pub const SHORT: u64 = 1000;

const DRIVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/stock_cli.py");

/// Runs the CLI in a directory over the environments that `environments` (its environments.toml) names; what each of
/// its tool calls told the model.
pub fn over_environments(scratch: &Scratch, dir: &Path, environments: &str, turns: &Value) -> Vec<Value> {
    run(scratch, dir, &[("--environments", environments)], turns)
}

/// Runs the CLI in a directory with more of its config.toml, and its command lines to run before, which is how plugins are
/// installed; what each of its tool calls told the model. It has no environment but its own.
pub fn with_config(scratch: &Scratch, dir: &Path, config: &str, before: &Value, turns: &Value) -> Vec<Value> {
    run(scratch, dir, &[("--config", config), ("--before", &before.to_string())], turns)
}

fn run(scratch: &Scratch, dir: &Path, files: &[(&str, &str)], turns: &Value) -> Vec<Value> {
    let write = |name: &str, text: &str| -> PathBuf {
        let file = scratch.state().join(name.trim_start_matches('-'));
        std::fs::write(&file, text).unwrap();
        file
    };
    let mut command = Command::new("python3");
    command.args([DRIVER, "-"]).arg(dir).arg(write("turns", &turns.to_string()));
    for (flag, text) in files {
        command.arg(flag).arg(write(flag, text));
    }
    drive(&mut command, turns)
}

/// Runs the CLI in the server's workspace over the server's URL, in one of the CLI's sandbox modes; what each of its tool
/// calls told the model.
pub fn over_url(mode: &str, server: &Server, turns: &Value) -> Vec<Value> {
    let file = server.scratch().state().join("turns.json");
    std::fs::write(&file, turns.to_string()).unwrap();
    let mut command = Command::new("python3");
    command.arg(DRIVER).arg(server.url()).arg(server.workspace()).arg(&file).args(["--sandbox", mode]);
    if let Some(token) = server.token() {
        command.args(["--token", token]);
    }
    drive(&mut command, turns)
}

fn drive(command: &mut Command, turns: &Value) -> Vec<Value> {
    command.args(["--timeout", &GIVE_UP.as_secs().to_string()]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["rc"], 0, "{report:#}");
    let Value::Array(outputs) = report["outputs"].take() else { panic!("{report:#}") };
    assert_eq!(outputs.len(), turns.as_array().unwrap().len(), "{}", report["text"]);
    outputs
}

/// What a tool call told the model, in words.
pub fn text(output: &Value) -> &str {
    output.as_str().unwrap_or_else(|| panic!("no text: {output}"))
}

/// A command that the CLI ran ended with this code, and what the model was told of it holds this.
pub fn assert_exit(output: &Value, code: i32, holds: &str) {
    let text = text(output);
    assert!(text.contains(&format!("Process exited with code {code}\n")), "{code}: {text:.2000}");
    assert!(text.contains(holds), "{holds:?}: {text:.2000}");
}
