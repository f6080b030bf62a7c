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

/// The table of one environment.
#[derive(Debug, Default)]
pub struct Report {
    rows: Vec<Row>,
}

impl Report {
    /// Adds a row.
    pub fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// How many cells and controls hold, and how many do not.
    pub fn tally(&self) -> (usize, usize) {
        let cells = || self.rows.iter().flat_map(|row| row.cells.iter().chain([&row.control]));
        (cells().filter(|cell| cell.holds).count(), cells().filter(|cell| !cell.holds).count())
    }

    /// The table as text. With `all`, every row; else only those that do not hold.
    pub fn text(&self, title: &str, all: bool) -> String {
        let mut out = String::new();
        let short = ["readOnly", "wsWriteNoNet", "wsWrite", "none"];
        debug_assert_eq!(short.len(), PROFILES.len());
        let _ = writeln!(out, "== {title}");
        let _ = writeln!(
            out,
            "{:<38} {:<18} {:<13} {:<13} {:<13} {:<13} control",
            "attack", "refusal", short[0], short[1], short[2], short[3]
        );
        for row in &self.rows {
            let holds = row.cells.iter().chain([&row.control]).all(|cell| cell.holds);
            if !all && holds {
                continue;
            }
            let _ = write!(out, "{:<38} {:<18}", row.name, row.expected);
            for cell in &row.cells {
                let _ = write!(out, " {:<13}", mark(cell));
            }
            let _ = writeln!(out, " {}", mark(&row.control));
        }
        let _ = writeln!(
            out,
            "`open`: nothing stops it, and the receipt says so. `(ERRNO)`: refused all the same."
        );
        out
    }
}

fn mark(cell: &Cell) -> String {
    if cell.holds { cell.text.clone() } else { format!("!! {}", cell.text) }
}
