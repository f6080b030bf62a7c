//! What docs/ has of the code is equal to it; the example does what its page says.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use agent_client::protocol::schema;

fn docs(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs")).join(name)
}

/// `make docs-tables` writes it anew.
#[test]
fn the_schema_of_the_protocol() {
    let file = docs("protocol.schema.json");
    let now = format!("{:#}\n", schema::document());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&file, &now).unwrap();
    }
    let written = fs::read_to_string(&file).unwrap();
    assert!(written == now, "docs/protocol.schema.json is not what the types are; run make docs-tables");
}

#[test]
#[cfg(target_os = "linux")]
fn the_rust_agent_prints_what_its_page_says() {
    let page = fs::read_to_string(docs("agents/rust.md")).unwrap();
    let expected = page.split("```text prints\n").nth(1).unwrap().split("```").next().unwrap();
    let workspace = tempfile::Builder::new().prefix("agent-client-").tempdir_in("/var/tmp").unwrap();
    let home = tempfile::Builder::new().prefix("agent-client-").tempdir_in("/var/tmp").unwrap();
    let example = Path::new(env!("CARGO_BIN_EXE_agent-client")).with_file_name("examples").join("agent");
    let mut command = Command::new(example);
    command.current_dir(&workspace).env_clear().env("HOME", home.path());
    let output = command.env("PATH", std::env::var_os("PATH").unwrap()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}
