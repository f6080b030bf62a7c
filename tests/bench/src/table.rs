//! What is to be shown: one row per figure, with what must hold and what is aimed at.

use std::fmt::Write as _;

use crate::stats::Measured;

/// What a figure is held against.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bound {
    /// No more than what must hold, than what is aimed at.
    AtMost(f64, f64),
    /// No less.
    AtLeast(f64, f64),
    /// Nothing: it is told to be compared.
    Told,
}

/// One figure.
#[derive(Debug)]
pub(crate) struct Row {
    what: &'static str,
    unit: &'static str,
    bound: Bound,
    /// Or why there is none.
    measured: Result<Measured, String>,
}

impl Row {
    /// A ratio.
    pub(crate) fn ratio(what: &'static str, bound: Bound, measured: anyhow::Result<Measured>) -> Self {
        Self::in_unit(what, "", bound, measured)
    }

    /// A figure in a unit.
    pub(crate) fn in_unit(
        what: &'static str,
        unit: &'static str,
        bound: Bound,
        measured: anyhow::Result<Measured>,
    ) -> Self {
        Self { what, unit, bound, measured: measured.map_err(|error| format!("{error:#}")) }
    }

    /// Whether there is a figure.
    pub(crate) fn is_measured(&self) -> bool {
        self.measured.is_ok()
    }

    /// The cells of the table.
    fn cells(&self) -> [String; 6] {
        let Self { what, unit, bound, measured } = self;
        let with_unit = |text: String| if unit.is_empty() { text } else { format!("{text} {unit}") };
        let limits =
            |sign, must, aim| [must, aim].map(|limit| format!("{sign} {}", with_unit(number(limit))));
        let [must, aim] = match *bound {
            Bound::AtMost(must, aim) => limits('≤', must, aim),
            Bound::AtLeast(must, aim) => limits('≥', must, aim),
            Bound::Told => [String::new(), String::new()],
        };
        let (value, spread, holds) = match measured {
            Ok(m) => (
                with_unit(number(m.value)),
                format!("{} – {}", number(m.low), number(m.high)),
                bound.verdict(m.value).to_owned(),
            ),
            Err(why) => ("–".into(), "–".into(), format!("not measured: {why}")),
        };
        [(*what).to_owned(), must, aim, value, spread, holds]
    }
}

impl Bound {
    fn verdict(self, value: f64) -> &'static str {
        let (must, aim) = match self {
            Bound::AtMost(must, aim) => (value <= must, value <= aim),
            Bound::AtLeast(must, aim) => (value >= must, value >= aim),
            Bound::Told => return "",
        };
        match (must, aim) {
            (_, true) => "aim",
            (true, false) => "must",
            (false, false) => "NO",
        }
    }
}

/// Three significant digits, without an exponent.
fn number(value: f64) -> String {
    let digits = if value.abs() >= 100.0 {
        0
    } else if value.abs() >= 10.0 {
        1
    } else if value.abs() >= 1.0 || value == 0.0 {
        2
    } else {
        3
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// The rows as a Markdown table.
pub(crate) fn markdown(rows: &[Row]) -> String {
    let mut out =
        String::from("| figure | must | aim | measured | spread | holds |\n|---|---|---|---|---|---|\n");
    for row in rows {
        // A String takes everything.
        let _ = writeln!(out, "| {} |", row.cells().join(" | "));
    }
    out
}

/// The rows for people.
pub(crate) fn text(rows: &[Row]) -> String {
    let line = |[what, must, aim, value, spread, holds]: [String; 6]| {
        format!("{what:<86} {must:>9} {aim:>9} {value:>9}  {spread:<17} {holds}")
    };
    let head = ["", "must", "aim", "measured", "spread", "holds"].map(str::to_owned);
    let lines: Vec<_> = std::iter::once(head).chain(rows.iter().map(Row::cells)).map(line).collect();
    lines.join("\n")
}
