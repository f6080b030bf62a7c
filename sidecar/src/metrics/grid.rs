//! Counters by two labels, most of whose combinations never happen.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use prometheus::{IntCounter, IntCounterVec};

/// How many more series there may be.
#[derive(Debug, Clone, Default)]
pub(super) struct Room(Arc<AtomicUsize>);

impl Room {
    pub(super) fn set(&self, series: usize) {
        self.0.store(series, Ordering::Relaxed);
    }

    fn take(&self) -> bool {
        let taken = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        taken.is_ok()
    }
}

/// One counter per row and column. Those that are not known from the start are made by their first event, while there
/// is room; after that the event counts in the last row.
#[derive(Debug)]
pub(super) struct Grid {
    family: IntCounterVec,
    rows: Vec<&'static str>,
    columns: &'static [&'static str],
    cells: Vec<OnceLock<IntCounter>>,
    room: Room,
}

impl Grid {
    /// The last row is known from the start, and the first `known` columns of every other one.
    pub(super) fn new(
        family: IntCounterVec,
        rows: Vec<&'static str>,
        columns: &'static [&'static str],
        known: usize,
        room: &Room,
    ) -> Grid {
        let cells = (0..rows.len() * columns.len()).map(|_| OnceLock::new()).collect();
        let grid = Grid { family, rows, columns, cells, room: room.clone() };
        for row in 0..grid.rows.len() {
            let known = if row + 1 == grid.rows.len() { columns.len() } else { known };
            for column in 0..known {
                grid.counter(row, column);
            }
        }
        grid
    }

    /// A name that is no row or column counts in the last one.
    pub(super) fn inc(&self, row: &str, column: &str) {
        let at =
            |names: &[&str], name| names.iter().position(|known| *known == name).unwrap_or(names.len() - 1);
        let (row, column) = (at(&self.rows, row), at(self.columns, column));
        let exists = self.cells[row * self.columns.len() + column].get().is_some();
        let row = if exists || self.room.take() { row } else { self.rows.len() - 1 };
        self.counter(row, column).inc();
    }

    fn counter(&self, row: usize, column: usize) -> &IntCounter {
        self.cells[row * self.columns.len() + column]
            .get_or_init(|| self.family.with_label_values(&[self.rows[row], self.columns[column]]))
    }
}

#[cfg(test)]
mod tests {
    use prometheus::Opts;

    use super::*;

    #[test]
    fn without_room_the_last_row_counts() {
        let family = IntCounterVec::new(Opts::new("x", "x"), &["row", "column"]).expect("valid");
        let room = Room::default();
        let grid = Grid::new(family.clone(), vec!["a", "b", "other"], &["ok", "bad"], 1, &room);
        room.set(1);
        for (row, column) in [("a", "ok"), ("a", "bad"), ("b", "bad"), ("a", "bad"), ("unknown", "ok")] {
            grid.inc(row, column);
        }
        let count = |row, column| family.with_label_values(&[row, column]).get();
        assert_eq!((count("a", "ok"), count("a", "bad")), (1, 2));
        assert_eq!((count("other", "bad"), count("other", "ok")), (1, 1));
    }
}
