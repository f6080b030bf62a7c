//! Runs the table, launch by launch, and looks after each whether the server is unharmed.

use std::fs;

use super::arena::{Arena, Conditions};
use super::expect::{Expected, expected};
use super::report::{Cell, Report, Row};
use super::table::{ATTACKS, Attack, Control, ELSEWHERE};
use super::{PROFILES, network, planted, server, signals, trees};

/// Whether the kernel, or a container's filter, may refuse this user things that the sandbox refuses too.
#[derive(Debug, Clone, Copy)]
pub struct Privileges {
    /// All capabilities, and no seccomp filter.
    pub all: bool,
}

impl Privileges {
    /// Of this process.
    pub fn of_this_process() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let field = |name: &str| status.lines().find_map(|l| l.strip_prefix(name)).map_or("", str::trim);
        let last = fs::read_to_string("/proc/sys/kernel/cap_last_cap").unwrap_or_default();
        let last: u32 = last.trim().parse().unwrap_or(63);
        let effective = u64::from_str_radix(field("CapEff:"), 16).unwrap_or(0);
        Self { all: effective == (1 << (last + 1)) - 1 && field("Seccomp:") == "0" }
    }
}

/// Runs everything under these conditions.
pub async fn run(conditions: &Conditions, only: Option<&str>, report: &mut Report) {
    let privileges = Privileges::of_this_process();
    let mut arenas =
        [Arena::start(conditions, "workspaceWrite").await, Arena::start(conditions, "none").await];
    let wanted = |name: &str| only.is_none_or(|part| name.contains(part));
    for attack in ATTACKS.iter().filter(|attack| wanted(attack.name)) {
        report.add(&one(attack, &mut arenas, privileges).await);
    }
    network::rows(&mut arenas, report, &wanted, privileges).await;
    network::one_port(conditions, report, &wanted, privileges).await;
    for way in signals::WAYS.iter().filter(|way| wanted(way.name)) {
        report.add(&signals::row(way, &mut arenas).await);
    }
    for tree in trees::TREES.iter().filter(|tree| wanted(tree.name)) {
        report.add(&trees::row(tree, &mut arenas).await);
    }
    server::rows(conditions, &mut arenas, &wanted, report).await;
    planted::rows(conditions, &wanted, report).await;
    for elsewhere in ELSEWHERE {
        let attacks: Vec<_> = elsewhere.attacks.iter().filter(|attack| wanted(attack.name)).collect();
        if attacks.is_empty() {
            continue;
        }
        let start = |ceiling| Arena::start_with(conditions, ceiling, elsewhere.config, elsewhere.read_roots);
        let mut arenas = [start("workspaceWrite").await, start("none").await];
        for attack in attacks {
            report.add(&one(attack, &mut arenas, privileges).await);
        }
    }
}

/// The profile `none` is on the second server.
pub(super) fn arena<'a>(arenas: &'a mut [Arena; 2], profile: &str) -> &'a mut Arena {
    &mut arenas[usize::from(profile == "none")]
}

async fn one(attack: &Attack, arenas: &mut [Arena; 2], privileges: Privileges) -> Row {
    let mut cells = Vec::new();
    for profile in PROFILES {
        let arena = arena(arenas, profile);
        arena.reset();
        let Some(words) = arena.words(attack.words) else {
            cells.push(Cell::good("-"));
            continue;
        };
        let (process, receipt, seen) = arena.attack(&words, profile).await;
        let wanted = expected(attack, profile, &receipt);
        // Under `none` an attack may have done what the receipt does not claim to stop.
        if wanted == Expected::Declared {
            arena.reset();
        }
        let damage = arena.damage(&process).await;
        cells.push(if damage.is_empty() { judge(attack.errnos, &wanted, &seen) } else { Cell::bad(damage) });
    }
    let control = control(attack, &arenas[0], privileges);
    Row { name: attack.name.into(), expected: attack.errnos.join("/"), cells, control }
}

pub(super) fn judge(errnos: &[&str], wanted: &Expected, seen: &str) -> Cell {
    let refused = errnos.contains(&seen);
    match wanted {
        Expected::Refused if refused => Cell::good(seen),
        Expected::Refused => Cell::bad(format!("{seen}, not {}", errnos.join("/"))),
        Expected::Granted if seen == "ok" => Cell::good("ok"),
        Expected::Granted => Cell::bad(format!("{seen}, not ok")),
        Expected::Declared if seen == "ok" => Cell::good("open"),
        Expected::Declared => Cell::good(format!("({seen})")),
        Expected::Unsaid(what) => Cell::bad(format!("{seen}; the receipt does not name {what:?}")),
    }
}

fn control(attack: &Attack, arena: &Arena, privileges: Privileges) -> Cell {
    arena.reset();
    let words = match attack.control {
        Control::Unneeded => return Cell::good(""),
        Control::Instead(words) | Control::InsteadPasses(words) => words,
        Control::Same | Control::Passes | Control::OfSomeKernels => attack.words,
    };
    let Some(words) = arena.words(words) else { return Cell::good("-") };
    let seen = arena.control(&words);
    arena.reset();
    let passes =
        matches!(attack.control, Control::Passes | Control::InsteadPasses(_) | Control::OfSomeKernels);
    match seen.as_str() {
        // A container's filter says so of what the machine has.
        "ENOSYS" if passes && !privileges.all => Cell::good("ENOSYS without it too"),
        "ENOSYS" if attack.control == Control::OfSomeKernels => Cell::good("ENOSYS without it too"),
        errno if passes && !attack.errnos.contains(&errno) => Cell::good(seen),
        _ if passes && !privileges.all => Cell::good(format!("{seen} without it too")),
        "ok" => Cell::good(seen),
        _ => Cell::bad(seen),
    }
}
