//! The printed table: one row per attack, one column per profile, and what the control showed.

use std::fmt::Write as _;

use super::PROFILES;

/// One cell, or the verdict over something else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// What was seen, and how it is to be read.
    pub text: String,
    /// Whether it is as it must be.
    pub holds: bool,
}

impl Cell {
    /// As it must be.
    pub fn good(text: impl Into<String>) -> Self {
        Self { text: text.into(), holds: true }
    }

    /// Not as it must be.
    pub fn bad(text: impl Into<String>) -> Self {
        Self { text: text.into(), holds: false }
    }
}

/// One row.
#[derive(Debug, Clone)]
pub struct Row {
    /// The attack.
    pub name: String,
    /// What a refusal looks like.
    pub expected: String,
    /// By profile, in the order of [`PROFILES`].
    pub cells: Vec<Cell>,
    /// The positive control.
    pub control: Cell,
}

impl Row {
    /// A row about the profiles of these columns alone.
    pub fn about(name: &str, expected: &str, cells: &[(usize, Cell)], control: Cell) -> Self {
        let cell = |n| cells.iter().find(|(column, _)| *column == n).map(|(_, cell)| cell.clone());
        let cells = (0..PROFILES.len()).map(|n| cell(n).unwrap_or_else(|| Cell::good("-"))).collect();
        Self { name: name.into(), expected: expected.into(), cells, control }
    }
}

/// The table of one environment, printed row by row.
#[derive(Debug)]
pub struct Report {
    /// Every row, or only those that do not hold.
    all: bool,
    passed: usize,
    failed: usize,
}

impl Report {
    /// Prints the head.
    pub fn new(title: &str, all: bool) -> Self {
        println!("== {title}");
        println!(
            "`open`: nothing stops it, and the receipt says so; `(ERRNO)`: so too, but refused all the same."
        );
        let [a, b, c, d] = ["readOnly", "wsWriteNoNet", "wsWrite", "none"];
        debug_assert_eq!(PROFILES.len(), 4);
        println!("{:<50} {:<18} {a:<13} {b:<13} {c:<13} {d:<13} control", "attack", "refusal");
        Self { all, passed: 0, failed: 0 }
    }

    /// Adds and prints a row.
    pub fn add(&mut self, row: &Row) {
        let cells = || row.cells.iter().chain([&row.control]);
        let failed = cells().filter(|cell| !cell.holds).count();
        self.failed += failed;
        self.passed += cells().count() - failed;
        if !self.all && failed == 0 {
            return;
        }
        let mut line = format!("{:<50} {:<18}", row.name, row.expected);
        for cell in &row.cells {
            let _ = write!(line, " {:<13}", mark(cell));
        }
        println!("{line} {}", mark(&row.control));
    }

    /// How many cells and controls hold, and how many do not.
    pub fn tally(&self) -> (usize, usize) {
        (self.passed, self.failed)
    }
}

fn mark(cell: &Cell) -> String {
    if cell.holds { cell.text.clone() } else { format!("!! {}", cell.text) }
}
