//! What the docs say of the configuration is what the programs take.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::process::{Command, Output, Stdio};

use e2e::server::clean_environment;
use e2e::{Scratch, programs};

const CONFIG: &str = include_str!("../../../docs/config.md");
const SANDBOX: &str = include_str!("../../../docs/sandbox.md");

/// How the tables of keys begin.
const SIDECAR: &str = "| key | variable | flag | value | meaning |";
const CLIENT: &str = "| key | flag | meaning |";

/// The rows of the tables in docs/config.md whose header starts with these cells.
fn rows(header: &str) -> impl Iterator<Item = Vec<&'static str>> {
    let tables = CONFIG.split("\n\n").filter(move |block| block.starts_with(header));
    let lines = tables.flat_map(|table| table.lines().skip(2));
    lines.map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`')).collect())
}

fn help(program: &std::path::Path, command: &str) -> String {
    let output = Command::new(program).args([command, "--help"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_flag_exists() {
    let help = help(&programs::sandbox_sidecar(), "serve") + &help(&programs::agent_client(), "exec");
    let mut seen = 0;
    let flags = rows(SIDECAR).map(|row| row[2]).chain(rows(CLIENT).map(|row| row[1]));
    for flag in flags.filter(|flag| !flag.is_empty()) {
        assert!(help.contains(&format!("{flag} ")) || help.contains(&format!("{flag}\n")), "{flag}");
        seen += 1;
    }
    assert!(seen > 25, "the tables were found: {seen}");
}

fn check_with(scratch: &Scratch, config: &str, variable: Option<(&str, &str)>) -> Output {
    let file = scratch.state().join("config.toml");
    fs::write(&file, config).unwrap();
    let mut command = Command::new(programs::sandbox_sidecar());
    command.arg("check").arg("--config").arg(file).arg("--workspace-root").arg(scratch.workspace());
    clean_environment(&mut command, scratch);
    command.envs(variable).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn every_key_of_the_sidecar_exists_and_is_checked() {
    let scratch = Scratch::new();
    let keys: Vec<_> = rows(SIDECAR).map(|row| row[0]).collect();
    assert!(keys.len() > 15 && keys.contains(&"limits.pingSeconds"), "{keys:?}");
    for key in keys {
        // No key takes a date, so one that is known complains of its value.
        let output = check_with(&scratch, &format!("{key} = 1979-05-27\n"), None);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(64), "{key}: {stderr}");
        assert!(stderr.contains(key) && stderr.contains("expected"), "{key}: {stderr}");
    }
    let output = check_with(&scratch, "nonsense = 1\n", None);
    assert_eq!(output.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&output.stderr).contains("unknown key nonsense"));
    assert_eq!(check_with(&scratch, "", None).status.code(), Some(0), "an empty file is a good one");
}

/// The first line of each row of `make keep-working`, and nothing else, is in the list of tested tools.
#[test]
fn the_tools_that_are_tested_are_listed() {
    let rows = concat!(env!("CARGO_MANIFEST_DIR"), "/../keep-working/rows");
    let mut files: Vec<_> = fs::read_dir(rows).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let tested: Vec<String> = files
        .iter()
        .map(|file| fs::read_to_string(file).unwrap().lines().next().unwrap().replacen('#', "-", 1))
        .collect();
    assert!(tested.len() > 40, "{tested:?}");
    let section = SANDBOX.split("## Tools that are tested\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let listed: Vec<_> = section.lines().filter(|line| line.starts_with("- ")).collect();
    assert_eq!(listed, tested);
}

#[test]
fn the_environment_beats_the_file() {
    let scratch = Scratch::new();
    let bad = check_with(&scratch, "profile = \"readOnly\"\n", Some(("SANDBOX_SIDECAR_PROFILE", "nonsense")));
    assert_eq!(bad.status.code(), Some(64));
    let good =
        check_with(&scratch, "profile = \"nonsense\"\n", Some(("SANDBOX_SIDECAR_PROFILE", "readOnly")));
    assert_eq!(good.status.code(), Some(0), "{}", String::from_utf8_lossy(&good.stderr));
}

#[test]
fn docs_config_has_every_key_and_its_variable() {
    let scratch = Scratch::new();
    let config = |variable: Option<(&str, &str)>| {
        let mut command = Command::new(programs::sandbox_sidecar());
        command.args(["config", "--json", "--workspace-root"]).arg(scratch.workspace());
        clean_environment(&mut command, &scratch);
        command.env("SANDBOX_SIDECAR_STATE", scratch.state()).envs(variable).output().unwrap()
    };
    let output = config(None);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let known: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
    let documented: Vec<_> = rows(SIDECAR).collect();
    let mut names: Vec<_> = documented.iter().map(|row| row[0]).collect();
    names.sort_unstable();
    assert_eq!(names, known.keys().map(String::as_str).collect::<Vec<_>>());
    for row in documented {
        let (key, variable) = (row[0], row[1]);
        // Known is what is taken, or what is refused for its value, or for another key that it needs.
        let output = config(Some((variable, "1")));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() || (stderr.contains(key) && !stderr.contains("unknown key")),
            "{variable}: {stderr}"
        );
    }
    let output = config(Some(("SANDBOX_SIDECAR_NONSENSE", "1")));
    assert!(!output.status.success(), "an unknown variable is refused");
}

#[test]
fn every_key_of_a_profile_exists_and_is_checked() {
    let scratch = Scratch::new();
    let keys: Vec<_> = rows("| key of a profile | meaning |").map(|row| row[0]).collect();
    assert!(keys.len() > 5 && keys.contains(&"extends"), "{keys:?}");
    for key in keys {
        let output = check_with(&scratch, &format!("[profiles.x]\n{key} = 1979-05-27\n"), None);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(64), "{key}: {stderr}");
        assert!(
            stderr.contains(&format!("profiles.x.{key}")) && stderr.contains("expected"),
            "{key}: {stderr}"
        );
    }
    let good = check_with(&scratch, "[profiles.x]\nextends = \"readOnly\"\n", None);
    assert_eq!(good.status.code(), Some(0), "{}", String::from_utf8_lossy(&good.stderr));
    assert!(String::from_utf8_lossy(&good.stdout).contains("\nx (full)"), "check proves it too");
}

/// Every test that `docs/reliability.md` names is a function of some test.
#[test]
fn every_promise_has_its_test() {
    const RELIABILITY: &str = include_str!("../../../docs/reliability.md");
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let mut sources = String::new();
    let mut directories: Vec<_> = ["crates", "sidecar", "agent-client", "tests/e2e/tests"]
        .map(|dir| root.to_owned() + "/" + dir)
        .into();
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path.to_str().unwrap().to_owned());
            } else if path.extension().is_some_and(|end| end == "rs") {
                sources += &fs::read_to_string(path).unwrap();
            }
        }
    }
    let rows = RELIABILITY.lines().filter(|line| line.starts_with("| "));
    let cells = rows.filter_map(|row| row.trim_end_matches(" |").rsplit(" | ").next());
    let mut seen = 0;
    for cell in cells.filter(|cell| cell.contains('`') && !cell.contains("make ")) {
        for name in cell.split('`').skip(1).step_by(2) {
            assert!(sources.contains(&format!("fn {name}(")), "{name}");
            seen += 1;
        }
    }
    assert!(seen > 40, "the tables were found");
}
