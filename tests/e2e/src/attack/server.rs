//! What a launch can do to the server's own directories, its trail, its doors and its life.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::arena::{Arena, Conditions, launch};
use super::expect::{Expected, declared};
use super::report::{Cell, Report, Row};
use crate::Client;

/// Directories in each other, for a launch's private one: more than a recursion has descriptors or stack for. Landlock
/// looks at each parent of a path, so many more take long to make.
const DEPTH: &str = "6000";
/// More than a server takes at once.
const CONNECTIONS: &str = "200";
const NO_NETWORK: &str = "workspaceWriteNoNetwork";

/// The rows, each under the profile that it is about.
pub async fn rows(
    conditions: &Conditions,
    arenas: &mut [Arena; 2],
    wanted: &impl Fn(&str) -> bool,
    report: &mut Report,
) {
    let arena = &mut arenas[0];
    for (name, words) in [
        ("its tmp: too deep", format!("deep-tree {DEPTH}")),
        ("its tmp: a closed directory", "closed-tree".into()),
    ] {
        if wanted(name) {
            report.add(&single(name, "removed", 0, private_tmp(arena, &words).await));
        }
    }
    for (column, profile) in [(1, NO_NETWORK), (2, "workspaceWrite")] {
        let name = "its tmp: the base is taken";
        if wanted(name) {
            report.add(&single(name, "still works", column, take_base(arena, profile).await));
        }
    }
    if wanted("the trail: forged by argv") {
        report.add(&single("the trail: forged by argv", "no record", 1, forge(arena).await));
    }
    if wanted("its doors: half-open connections") {
        report.add(&single("its doors: half-open connections", "lets in", 2, half_open(arena).await));
    }
    for (name, words) in [
        ("SIGKILL at a thread of the server", "signal tkill {server_thread} kill"),
        ("SIGKILL by F_SETOWN at the server", "signal owner {server} kill"),
    ] {
        if wanted(name) {
            report.add(&single(name, "lives", 1, end_server(conditions, words).await));
        }
    }
}

/// A row about one profile, whose controls are what it does before and after.
fn single(name: &str, expected: &str, column: usize, cell: Cell) -> Row {
    let cells = (0..4).map(|n| if n == column { cell.clone() } else { Cell::good("-") }).collect();
    Row { name: name.into(), expected: expected.into(), cells, control: Cell::good("") }
}

/// The directory that this server makes private ones in. It says where its own is: that of no other server may be touched.
async fn base(arena: &mut Arena) -> Result<PathBuf, Cell> {
    let (_, _, said) = arena.attack(&["tell-tmp".to_owned()], "readOnly").await;
    let dir = Path::new(said.lines().next().unwrap_or_default());
    let base = dir.parent().filter(|base| base.starts_with("/tmp/"));
    base.map(Path::to_owned).ok_or_else(|| Cell::bad(format!("no directory: {said}")))
}

/// The private directories of launches that are there now.
fn private_dirs(base: &Path) -> Vec<PathBuf> {
    fs::read_dir(base).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// A launch makes its private directory hard to remove; it is removed, and the server lives.
async fn private_tmp(arena: &mut Arena, words: &str) -> Cell {
    let base = match base(arena).await {
        Ok(base) => base,
        Err(cell) => return cell,
    };
    let before = private_dirs(&base);
    let words = arena.words(words).unwrap();
    let (process, _, seen) = arena.attack(&words, "readOnly").await;
    let damage = arena.damage(&process).await;
    if seen != "ok" || !damage.is_empty() {
        return Cell::bad(format!("{seen} {damage}"));
    }
    let give_up = tokio::time::Instant::now() + crate::GIVE_UP / 4;
    loop {
        let left: Vec<PathBuf> =
            private_dirs(&base).into_iter().filter(|dir| !before.contains(dir)).collect();
        if left.is_empty() {
            return Cell::good("removed");
        }
        if tokio::time::Instant::now() > give_up {
            return Cell::bad(format!("left: {left:?}"));
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

/// A launch that may write to /tmp takes the directory that private ones are made in.
async fn take_base(arena: &mut Arena, profile: &str) -> Cell {
    let base = match base(arena).await {
        Ok(base) => base,
        Err(cell) => return cell,
    };
    let base = base.display().to_string();
    let (_, _, seen) = arena.attack(&["take-tmp-base".to_owned(), base.clone()], profile).await;
    if seen != "ok" {
        return Cell::bad(format!("the control: {seen}"));
    }
    let (_, answer) = arena.start_hostile(&["nothing".to_owned()], "readOnly").await;
    let _ = fs::remove_file(&base);
    let _ = fs::remove_dir_all(format!("{base}-taken"));
    match answer {
        Ok(_) => Cell::good("still works"),
        Err(error) => Cell::bad(format!("readOnly is not launched any more: {}", error["message"])),
    }
}

/// An argument that looks like lines of the trail.
async fn forge(arena: &mut Arena) -> Cell {
    let line = "\n{\"kind\":\"audit\",\"event\":\"exit\",\"process_id\":\"forged\"}\n";
    let words = ["environment".to_owned(), line.to_owned()];
    let (process, _, _) = arena.attack(&words, NO_NETWORK).await;
    let damage = arena.damage(&process).await;
    let trail = fs::read_to_string(arena.place("audit")).unwrap();
    let parsed: Vec<Option<Value>> = trail.lines().map(|line| serde_json::from_str(line).ok()).collect();
    let forged = parsed.iter().any(|line| line.as_ref().is_none_or(|line| line["process_id"] == "forged"));
    let told = trail.contains("forged");
    match (forged, told, damage.as_str()) {
        (false, true, "") => Cell::good("no record"),
        _ => Cell::bad(format!("forged: {forged}, told as it was: {told} {damage}")),
    }
}

/// A launch with a network holds connections open; another client still gets in.
async fn half_open(arena: &mut Arena) -> Cell {
    let words = arena.words(&format!("half-open {{api}} {CONNECTIONS}")).unwrap();
    let (process, answer) = arena.start_hostile(&words, "workspaceWrite").await;
    answer.unwrap();
    let mut other = Client::open(&arena.server).await;
    let let_in = other.call("environment/status", json!({})).await.is_ok();
    let params = json!({"processId": process, "graceMs": 0, "descendants": true});
    arena.client.call("process/terminate", params).await.unwrap();
    arena.client.of_process(&process, "closed").await;
    if let_in { Cell::good("lets in") } else { Cell::bad("does not let in") }
}

/// Aims at the life of a server of its own.
async fn end_server(conditions: &Conditions, words: &str) -> Cell {
    let mut arena = Arena::start(conditions, "workspaceWrite").await;
    let words = arena.words(words).unwrap();
    let (_, receipt, _) = arena.attack(&["nothing".to_owned()], NO_NETWORK).await;
    let process = "end-server".to_owned();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    // The answer may never come.
    arena.client.request("process/start", launch(&arena.hostile, &words, &process, NO_NETWORK)).await;
    let ended = loop {
        match arena.client.next().await {
            None => break true,
            Some(frame) if frame["method"] == "process/closed" && frame["params"]["processId"] == process => {
                break false;
            }
            Some(_) => {}
        }
    };
    let ended = ended || !arena.damage(&process).await.is_empty();
    let expected = match receipt["parts"]["signal"].as_str() {
        Some("full") => Expected::Refused,
        _ => declared(&receipt, "signals to other launches and to the sidecar's threads"),
    };
    match (expected, ended) {
        (Expected::Refused, false) => Cell::good("lives"),
        (Expected::Declared, true) => Cell::good("open"),
        (Expected::Declared, false) => Cell::good("(lives)"),
        (expected, _) => Cell::bad(format!("ended: {ended}; {expected:?}")),
    }
}
