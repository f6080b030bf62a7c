//! Measures the built server against what the machine gives and against the stock server, in turns, in one run; prints
//! each figure beside what must hold and what is aimed at.
//!
//! `make bench` and `make bench-smoke` run it. The built programs are those of `$E2E_BIN_DIR`.
#![expect(clippy::cast_precision_loss, reason = "counts and bytes are far below 2^52")]

mod baseline;
mod bench;
mod files;
mod footprint;
mod latency;
mod launches;
mod machine;
mod memory;
mod process;
mod stats;
mod streams;
mod subject;
mod table;
mod wire;
mod within;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, ensure};
use caps::{CapSet, Capability};
use clap::Parser;

use crate::bench::{Bench, Scale};
use crate::table::Row;

#[derive(Parser)]
struct Cli {
    /// Little of everything: only that each figure is produced.
    #[arg(long)]
    smoke: bool,
    /// The document whose table is to be written anew.
    #[arg(long)]
    document: Option<PathBuf>,
    /// Only the sections with one of these names.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Be a daemon with so many MiB in use, for the launches inside of one.
    #[arg(long, hide = true)]
    within: Option<usize>,
}

type Section = (&'static str, fn(&Bench) -> anyhow::Result<Vec<Row>>);

const SECTIONS: [Section; 4] = [
    ("launches", |bench| Ok(launches::rows(bench))),
    ("streams", streams::rows),
    ("latency", |bench| Ok(latency::rows(bench))),
    ("files", |bench| Ok(files::rows(bench))),
];

/// The section that comes last in the table, and first in a run.
const FOOTPRINT: &str = "footprint";

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    if let Some(mib) = cli.within {
        return within::serve(mib);
    }
    as_in_a_pod()?;
    let begin = Instant::now();
    let scale = if cli.smoke { Scale::Smoke } else { Scale::Full };
    let wanted = |name| cli.only.is_empty() || cli.only.iter().any(|only| only == name);
    let footprint = if wanted(FOOTPRINT) { footprint::rows(scale) } else { Vec::new() };
    let bench = Bench::start(scale)?;
    let mut rows = Vec::new();
    for (name, section) in SECTIONS.into_iter().filter(|(name, _)| wanted(name)) {
        rows.extend(section(&bench).with_context(|| format!("the section {name}"))?);
    }
    rows.extend(footprint);
    let took = format!("{} s on {}", begin.elapsed().as_secs(), machine::describe()?);
    println!("{}\n{took}", table::text(&rows));
    if let Some(document) = cli.document {
        ensure!(cli.only.is_empty() && !cli.smoke, "a document is of a whole run");
        write(&document, &format!("{took}.\n\n{}", table::markdown(&rows)))?;
    }
    ensure!(bench.stock().is_err() || rows.iter().all(Row::is_measured), "not every figure was produced");
    Ok(())
}

/// What is measured has no capabilities, whoever started this. This process keeps its own, to look at the others' memory.
fn as_in_a_pod() -> anyhow::Result<()> {
    if caps::has_cap(None, CapSet::Effective, Capability::CAP_SETPCAP)? {
        caps::clear(None, CapSet::Bounding)?;
    }
    Ok(())
}

/// Puts the figures between the marks.
fn write(document: &Path, figures: &str) -> anyhow::Result<()> {
    const BEGIN: &str = "<!-- figures -->\n";
    const END: &str = "<!-- end of figures -->\n";
    let text = std::fs::read_to_string(document)?;
    let marks = text.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let (before, after) = marks.with_context(|| format!("{} has no marks", document.display()))?;
    Ok(std::fs::write(document, format!("{before}{BEGIN}{figures}{END}{after}"))?)
}
