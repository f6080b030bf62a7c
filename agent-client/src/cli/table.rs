//! Columns of text for people, and names that cannot garble a terminal.

use std::io::{self, IsTerminal as _, Write};

/// Lines of columns; the last one is as wide as it is.
#[derive(Debug, Default)]
pub(super) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new(header: &[&str]) -> Self {
        Self { rows: vec![header.iter().map(|&cell| cell.to_owned()).collect()] }
    }

    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    pub(super) fn print(&self) -> io::Result<()> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut out = io::stdout().lock();
        for row in &self.rows {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let is_last = column + 1 == row.len();
                line +=
                    &if is_last { cell.clone() } else { format!("{cell:<width$}  ", width = widths[column]) };
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        out.flush()
    }
}

/// Prints a value as JSON, on one line.
pub(super) fn json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, value)?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

/// Text that came from elsewhere, for a terminal: control characters are escaped, so that it can do nothing there.
pub(super) fn harmless(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        if c.is_control() {
            out.extend(c.escape_default())
        } else {
            out.push(c)
        }
        out
    })
}

/// A name on a line of its own: escaped on a terminal, byte for byte elsewhere.
pub(super) fn name_line(out: &mut impl Write, name: &[u8]) -> io::Result<()> {
    if io::stdout().is_terminal() {
        writeln!(out, "{}", harmless(&String::from_utf8_lossy(name)))
    } else {
        out.write_all(name)?;
        out.write_all(b"\n")
    }
}

/// A time as people read it, UTC.
pub(super) fn time(ms: i64) -> String {
    let seconds = u64::try_from(ms.div_euclid(1000)).unwrap_or(0);
    let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
    humantime::format_rfc3339_seconds(at).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_acts_on_a_terminal() {
        assert_eq!(harmless("a\x1b[2J\nb\u{9b}c é"), "a\\u{1b}[2J\\nb\\u{9b}c é");
    }
}
