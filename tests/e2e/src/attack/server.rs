//! What a launch can do to the server's own directories, its trail, its doors and its life.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::arena::{Arena, Conditions, launch, output};
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
    // The control of a removal leaves few, for the test removes them itself.
    for (name, words, left) in [
        ("its tmp: too deep", format!("deep-tree {DEPTH}"), "deep-tree 2"),
        ("its tmp: a closed directory", "closed-tree".into(), "closed-tree"),
    ] {
        if wanted(name) {
            let cell = private_tmp(arena, &words).await;
            report.add(&Row::about(name, "removed", &[(0, cell)], leaves(arena, left)));
        }
    }
    let name = "its tmp: the base is taken";
    if wanted(name) {
        let (mut cells, mut taken) = (Vec::new(), Cell::good("taken"));
        for (column, profile) in [(1, NO_NETWORK), (2, "workspaceWrite")] {
            match take_base(arena, profile).await {
                Ok(cell) => cells.push((column, cell)),
                Err(cell) => taken = cell,
            }
        }
        report.add(&Row::about(name, "still works", &cells, taken));
    }
    let name = "the trail: forged by argv";
    if wanted(name) {
        let (cell, control) = forge(arena).await;
        report.add(&Row::about(name, "no record", &[(1, cell)], control));
    }
    let name = "its doors: half-open connections";
    if wanted(name) {
        let (cell, control) = half_open(arena).await;
        report.add(&Row::about(name, "lets in", &[(2, cell)], control));
    }
    for (name, words, instead) in [
        (
            "SIGKILL at a thread of the server",
            "signal tkill {server_thread} kill",
            "signal tkill {plain} kill",
        ),
        ("SIGKILL by F_SETOWN at the server", "signal owner {server} kill", "signal owner {plain} kill"),
    ] {
        if wanted(name) {
            let (cell, control) = end_server(conditions, words, instead).await;
            report.add(&Row::about(name, "lives", &[(1, cell)], control));
        }
    }
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

/// Without the sandbox, nobody removes what the program makes.
fn leaves(arena: &Arena, words: &str) -> Cell {
    let dir = tempfile::tempdir_in(arena.place("outside")).unwrap();
    let seen = arena.control_in(&arena.words(words).unwrap(), dir.path());
    let mut left = 0;
    for entry in fs::read_dir(dir.path()).unwrap() {
        left += 1;
        // So that they can be removed here.
        fs::set_permissions(entry.unwrap().path(), fs::Permissions::from_mode(0o700)).unwrap();
    }
    match (seen.as_str(), left) {
        ("ok", 1..) => Cell::good("left there"),
        _ => Cell::bad(format!("{seen}, {left} left")),
    }
}

/// A launch that may write to /tmp takes the directory that private ones are made in.
/// `Err`: it could not.
async fn take_base(arena: &mut Arena, profile: &str) -> Result<Cell, Cell> {
    let base = base(arena).await?.display().to_string();
    let (_, _, seen) = arena.attack(&["take-tmp-base".to_owned(), base.clone()], profile).await;
    if seen != "ok" {
        return Err(Cell::bad(seen));
    }
    let (_, answer) = arena.start_hostile(&["nothing".to_owned()], "readOnly").await;
    let _ = fs::remove_file(&base);
    let _ = fs::remove_dir_all(format!("{base}-taken"));
    Ok(match answer {
        Ok(_) => Cell::good("still works"),
        Err(error) => Cell::bad(format!("readOnly is not launched any more: {}", error["message"])),
    })
}

/// An argument that looks like lines of the trail. The control is a trail that would have it as it came.
async fn forge(arena: &mut Arena) -> (Cell, Cell) {
    let line = "\n{\"kind\":\"audit\",\"event\":\"exit\",\"process_id\":\"forged\"}\n";
    let words = ["environment".to_owned(), line.to_owned()];
    let (process, _, _) = arena.attack(&words, NO_NETWORK).await;
    let damage = arena.damage(&process).await;
    let trail = fs::read_to_string(arena.place("audit")).unwrap();
    let told = trail.contains("forged");
    let cell = match (is_forged(&trail), told, damage.as_str()) {
        (false, true, "") => Cell::good("no record"),
        (forged, ..) => Cell::bad(format!("forged: {forged}, told as it was: {told} {damage}")),
    };
    let control = match is_forged(line) {
        true => Cell::good("a record"),
        false => Cell::bad("no record"),
    };
    (cell, control)
}

/// Whether a line of the trail is the forged one, or none at all.
fn is_forged(trail: &str) -> bool {
    let mut lines = trail.lines().filter(|line| !line.is_empty());
    lines.any(|line| serde_json::from_str(line).map_or(true, |line: Value| line["process_id"] == "forged"))
}

/// A launch with a network holds connections open; another client still gets in.
async fn half_open(arena: &mut Arena) -> (Cell, Cell) {
    let words = arena.words(&format!("half-open {{api}} {CONNECTIONS}")).unwrap();
    let (process, answer) = arena.start_hostile(&words, "workspaceWrite").await;
    answer.unwrap();
    let said = output(&mut arena.client, &process).await;
    let mut other = Client::open(&arena.server).await;
    let let_in = other.call("environment/status", json!({})).await.is_ok();
    let params = json!({"processId": process, "graceMs": 0, "descendants": true});
    arena.client.call("process/terminate", params).await.unwrap();
    arena.client.of_process(&process, "closed").await;
    let cell = if let_in { Cell::good("lets in") } else { Cell::bad("does not let in") };
    let control = match said.trim() {
        "ok" => Cell::good("all connected"),
        other => Cell::bad(other),
    };
    (cell, control)
}

/// Aims at the life of a server of its own; then, without the sandbox, of the process of the controls.
async fn end_server(conditions: &Conditions, words: &str, instead: &str) -> (Cell, Cell) {
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
    let cell = match (expected, ended) {
        (Expected::Refused, false) => Cell::good("lives"),
        (Expected::Declared, true) => Cell::good("open"),
        (Expected::Declared, false) => Cell::good("(lives)"),
        (expected, _) => Cell::bad(format!("ended: {ended}; {expected:?}")),
    };
    let seen = arena.control(&arena.words(instead).unwrap());
    let control = match (seen.as_str(), arena.plain.ended_by()) {
        ("ok", Some(libc::SIGKILL)) => Cell::good("ended"),
        (seen, by) => Cell::bad(format!("{seen}, {by:?}")),
    };
    (cell, control)
}
