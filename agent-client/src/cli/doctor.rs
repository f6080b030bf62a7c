//! `agent-client doctor`: from the config to a sandboxed launch, step by step, with the fix for what fails.

mod probe;
mod steps;

use std::io::{self, IsTerminal as _};

use serde::Serialize;

use super::connection::Connection;
use super::exit;
use super::table::{harmless, json};

/// Find out why it does not work, and how to fix that.
///
/// Each step needs those before it: config, reachability, auth, handshake, mapping, launch. The exit code is 1 where one
/// fails.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  agent-client doctor --sidecar-url ws://127.0.0.1:8790 --token-file ./token"
)]
pub(super) struct Args {
    /// Print the steps as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// The steps, in their order.
const STEPS: [&str; 6] = ["config", "reachability", "auth", "handshake", "mapping", "launch"];

/// One step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Step {
    check: &'static str,
    /// `None`: not tried, for one before it failed.
    ok: Option<bool>,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

/// What is wrong, and what would help.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Fault {
    check: &'static str,
    detail: String,
    fix: String,
}

impl Fault {
    fn new(check: &'static str, detail: impl ToString, fix: impl Into<String>) -> Self {
        Self { check, detail: detail.to_string(), fix: fix.into() }
    }
}

/// What has held so far.
#[derive(Debug, Default)]
struct Findings(Vec<(&'static str, String)>);

impl Findings {
    fn ok(&mut self, check: &'static str, detail: impl Into<String>) {
        self.0.push((check, detail.into()));
    }
}

pub(super) async fn run(args: Args) -> anyhow::Result<u8> {
    let mut findings = Findings::default();
    let fault = steps::examine(args.connection, &mut findings).await.err();
    let steps = steps_of(findings, fault);
    let is_well = steps.iter().all(|step| step.ok == Some(true));
    if args.json {
        json(&steps)?;
    } else {
        steps.iter().for_each(print);
    }
    Ok(if is_well { 0 } else { exit::PARTIAL })
}

fn steps_of(findings: Findings, fault: Option<Fault>) -> Vec<Step> {
    let step = |check: &'static str| {
        if let Some((_, detail)) = findings.0.iter().find(|(found, _)| *found == check) {
            return Step { check, ok: Some(true), detail: detail.clone(), fix: None };
        }
        match &fault {
            Some(fault) if fault.check == check => {
                Step { check, ok: Some(false), detail: fault.detail.clone(), fix: Some(fault.fix.clone()) }
            }
            _ => Step { check, ok: None, detail: "not tried".to_owned(), fix: None },
        }
    };
    STEPS.into_iter().map(step).collect()
}

fn print(step: &Step) {
    let (word, colour) = match step.ok {
        Some(true) => ("ok", "32"),
        Some(false) => ("FAIL", "31"),
        None => ("-", "2"),
    };
    let word = format!("{word:<4}");
    let is_plain = !io::stdout().is_terminal() || std::env::var_os("NO_COLOR").is_some();
    let word = if is_plain { word } else { format!("\x1b[{colour}m{word}\x1b[0m") };
    println!("{word}  {:<12}  {}", step.check, harmless(&step.detail));
    if let Some(fix) = &step.fix {
        println!("      fix: {}", harmless(fix));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_after_a_fault_is_not_tried() {
        let mut findings = Findings::default();
        findings.ok("config", "fine");
        let steps = steps_of(findings, Some(Fault::new("reachability", "refused", "start it")));
        assert_eq!(
            steps.iter().map(|step| step.ok).collect::<Vec<_>>()[..3],
            [Some(true), Some(false), None]
        );
        assert_eq!(steps[1].fix.as_deref(), Some("start it"));
    }
}
