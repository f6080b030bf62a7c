//! Ways to signal that give their sender no errno: the proof is taken at the receiver, which counts them.

use super::PROFILES;
use super::arena::Arena;
use super::expect::{Expected, declared};
use super::report::{Cell, Row};
use super::run;

/// One way to signal others.
#[derive(Debug, Clone, Copy)]
pub struct Way {
    /// The row's name.
    pub name: &'static str,
    /// The hostile program's word for it.
    how: &'static str,
    /// Whom it aims at: a place, or a word of the hostile program.
    at: &'static str,
    /// Kept even where the receipt's part `signal` is not `full`.
    always: bool,
}

/// All of them.
pub const WAYS: &[Way] = &[
    Way { name: "kill(-1)", how: "kill", at: "everybody", always: true },
    Way { name: "F_SETOWN on a process", how: "owner", at: "{plain}", always: false },
    Way { name: "F_SETOWN_EX on a process", how: "owner-ex", at: "{plain}", always: false },
    Way { name: "FIOSETOWN on a process", how: "owner-ioctl", at: "{plain}", always: false },
];

/// A row of the table.
pub async fn row(way: &Way, arenas: &mut [Arena; 2]) -> Row {
    let mut cells = Vec::new();
    for profile in PROFILES {
        let arena = run::arena(arenas, profile);
        let words = words(way, arena, way.at);
        let before = (arena.plain.signals(), arena.victim_signals().await);
        let (process, receipt, seen) = arena.attack(&words, profile).await;
        let hit = (arena.plain.signals(), arena.victim_signals().await) != before;
        let full = way.always || receipt["parts"]["signal"] == "full";
        let expected = if full {
            Expected::Refused
        } else {
            declared(&receipt, "signals to other launches and to the sidecar's threads")
        };
        let damage = arena.damage(&process).await;
        cells.push(match (damage.as_str(), hit, expected) {
            ("", false, Expected::Refused) => Cell::good("no signal"),
            ("", true, Expected::Refused) => Cell::bad(format!("{seen}, and the SIGNAL ARRIVED")),
            ("", true, Expected::Declared) => Cell::good("open"),
            ("", false, Expected::Declared) => Cell::good(format!("({seen})")),
            ("", _, other) => Cell::bad(format!("{other:?}")),
            (damage, ..) => Cell::bad(damage),
        });
    }
    let arena = &mut arenas[0];
    let before = arena.plain.signals();
    // Never at everybody: without the sandbox that would be everybody.
    let seen = arena.control(&words(way, arena, "{plain}"));
    let hit = arena.plain.signals() > before;
    let control = if hit { Cell::good("arrives") } else { Cell::bad(seen) };
    Row { name: way.name.into(), expected: "no signal".into(), cells, control }
}

fn words(way: &Way, arena: &Arena, at: &str) -> Vec<String> {
    arena.words(&format!("signal {} {at} urg", way.how)).unwrap()
}
