//! Trees that do not want to end: after `process/terminate` none of their processes is left.

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};

use super::PROFILES;
use super::arena::Arena;
use super::report::{Cell, Row};
use super::run;
use crate::GIVE_UP;
use crate::client::decode;

/// One kind of tree.
#[derive(Debug, Clone, Copy)]
pub struct Tree {
    /// The row's name.
    pub name: &'static str,
    /// The hostile program's words; the mark comes behind them.
    words: &'static str,
    /// How many processes it has when it says that it is under way, at least.
    processes: usize,
}

/// All of them.
pub const TREES: &[Tree] = &[
    Tree { name: "tree: a daemon", words: "daemon", processes: 1 },
    Tree { name: "tree: a bounded fork bomb", words: "bomb 150", processes: 150 },
    Tree { name: "tree: a chain of forks", words: "chain", processes: 1 },
    Tree { name: "tree: all signals ignored", words: "ignore-signals", processes: 1 },
    Tree { name: "tree: its leader thread has ended", words: "leader-exits", processes: 1 },
    Tree { name: "tree: its shim is stopped", words: "stop-shim", processes: 1 },
    Tree { name: "tree: its shim is killed", words: "kill-shim", processes: 1 },
    Tree { name: "tree: a chain of forks, its shim killed", words: "chain-kill-shim", processes: 1 },
];

impl Tree {
    fn kills_shim(&self) -> bool {
        self.words.ends_with("kill-shim")
    }
}

/// A row of the table.
pub async fn row(tree: &Tree, arenas: &mut [Arena; 2]) -> Row {
    let mut cells = Vec::new();
    let mut most = 0;
    for profile in PROFILES {
        let arena = run::arena(arenas, profile);
        let mark = format!("mark-{}-{profile}-{}", std::process::id(), tree.words.replace(' ', "-"));
        let words = arena.words(&format!("{} {mark}", tree.words)).unwrap();
        let (process, answer) = arena.start_hostile(&words, profile).await;
        if let Err(error) = answer {
            // A shim that is killed before it could tell of the start: no launch then, and nothing of it is left.
            let left = until(&mark, |alive| alive == 0).await;
            cells.push(match (error["data"]["stage"].as_str(), left) {
                (Some("shim"), 0) if tree.kills_shim() => Cell::good("(no launch)"),
                _ => Cell::bad(format!("{left} left, {error}")),
            });
            most = most.max(tree.processes);
            continue;
        }
        // A launch whose shim is killed is ended by the server then: maybe before it has said so, or before the first look. One
        // that may not kill it says why, and lives.
        let alive = match says(arena, &process).await.as_str() {
            "" | "ok" if tree.kills_shim() => tree.processes,
            _ => until(&mark, |alive| alive >= tree.processes).await,
        };
        most = most.max(alive);
        let params = json!({"processId": process, "graceMs": 0, "descendants": true});
        arena.client.call("process/terminate", params).await.unwrap();
        let left = until(&mark, |alive| alive == 0).await;
        let closed = if left == 0 { closed(arena, &process).await } else { Err(format!("{left} left")) };
        cells.push(match closed {
            Ok(()) => match arena.damage(&process).await {
                damage if damage.is_empty() => Cell::good("all gone"),
                damage => Cell::bad(damage),
            },
            Err(why) => Cell::bad(why),
        });
    }
    let control = if most >= tree.processes {
        Cell::good(format!("{most} alive before"))
    } else {
        Cell::bad(format!("{most} alive before"))
    };
    Row { name: tree.name.into(), expected: "all gone".into(), cells, control }
}

/// What it says first; nothing where it exits before.
async fn says(arena: &mut Arena, process: &str) -> String {
    let first = arena.client.find(|frame| {
        let tells = frame["method"] == "process/output" || frame["method"] == "process/exited";
        tells && frame["params"]["processId"] == process
    });
    let chunk = first.await["params"]["chunk"].take();
    if chunk.is_null() { String::new() } else { String::from_utf8_lossy(&decode(&chunk)).trim().to_owned() }
}

async fn closed(arena: &mut Arena, process: &str) -> Result<(), String> {
    let notification = arena.client.of_process(process, "closed");
    tokio::time::timeout(GIVE_UP / 4, notification)
        .await
        .map(drop)
        .map_err(|_| "it is never told closed".into())
}

/// Looks until so many processes bear the mark, and gives how many there were at last.
async fn until(mark: &str, enough: impl Fn(usize) -> bool) -> usize {
    let give_up = Instant::now() + GIVE_UP / 4;
    loop {
        let alive = crate::alive(mark);
        if enough(alive) || Instant::now() > give_up {
            return alive;
        }
        sleep(Duration::from_millis(2)).await;
    }
}
