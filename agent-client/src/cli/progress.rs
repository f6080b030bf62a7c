//! How far a transfer has come: a bar on a terminal, nothing elsewhere.

use std::io::{self, IsTerminal as _};
use std::path::Path;

use agent_client::transfer::{Observer, Report};
use indicatif::{HumanBytes, ProgressBar, ProgressStyle};

use super::report;
use super::table::{harmless, json};

/// A bar on stderr.
#[derive(Debug)]
pub(super) struct Progress(ProgressBar);

impl Progress {
    pub(super) fn new() -> Self {
        let bar = if io::stderr().is_terminal() { ProgressBar::new(0) } else { ProgressBar::hidden() };
        let template = "{bar:30} {bytes}/{total_bytes} {bytes_per_sec} {wide_msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self(bar)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

impl Observer for Progress {
    fn planned(&self, _: u64, bytes: u64) {
        self.0.set_length(bytes);
    }

    fn advanced(&self, bytes: u64) {
        self.0.inc(bytes);
    }

    fn file_done(&self, path: &Path) {
        self.0.set_message(harmless(&path.display().to_string()));
    }
}

/// Tells what a transfer did; the result is the exit code.
pub(super) fn tell(outcome: &Report, as_json: bool, summary: bool) -> anyhow::Result<u8> {
    if as_json {
        json(outcome)?;
    } else {
        for step in &outcome.steps {
            println!("{} {}", step.action, shown(&step.path));
        }
        if summary {
            println!("{}", in_words(outcome));
        }
    }
    for skipped in &outcome.skipped {
        report::say(&format!("skipped {}: {}", shown(&skipped.path), harmless(&skipped.reason)));
    }
    Ok(if outcome.skipped.is_empty() { 0 } else { super::exit::PARTIAL })
}

/// A path below the root, which itself has an empty one.
fn shown(path: &Path) -> String {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    harmless(&path.display().to_string())
}

fn in_words(outcome: &Report) -> String {
    let Report { files, bytes, directories, symlinks, deleted, unchanged, skipped, .. } = outcome;
    format!(
        "{files} files ({}), {directories} directories, {symlinks} symlinks, {deleted} deleted, {unchanged} unchanged, \
         {} skipped",
        HumanBytes(*bytes),
        skipped.len()
    )
}
