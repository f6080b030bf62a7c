//! The report of a check, for people and for programs.

use std::fmt;

use serde_json::{Value, json};
use sidecar_sandbox::{Kernel, Sandbox, Unavailable};

use super::proof::{Expected, Proof, Step};
use crate::{VERSION, policy};

/// What this kernel and container can enforce.
#[derive(Debug)]
pub struct Report {
    /// What the probe found.
    pub kernel: Kernel,
    /// The profile of a launch that asks for none.
    pub default: String,
    /// The profile that no launch gets beyond.
    pub ceiling: String,
    /// What was tried, the tightest profile first.
    pub proofs: Vec<Proof>,
    /// Whether the ceiling holds.
    pub verdict: Verdict,
}

/// Whether the configured ceiling holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Whether it does.
    pub holds: bool,
    /// Why not; or what to know although it does.
    pub reason: String,
}

impl Report {
    pub(super) fn new(sandbox: &Sandbox, proofs: Vec<Proof>) -> Report {
        let kernel = sandbox.kernel().clone();
        let options = sandbox.options();
        let verdict = verdict(&kernel, &proofs);
        Report {
            kernel,
            default: options.default.to_string(),
            ceiling: options.ceiling.to_string(),
            proofs,
            verdict,
        }
    }

    /// The report as JSON.
    pub fn to_json(&self) -> Value {
        let kernel = &self.kernel;
        json!({
            "version": VERSION,
            "kernel": {
                "release": kernel.release,
                "reportedAbi": kernel.reported_abi,
                "abi": kernel.abi,
                "errata": kernel.errata,
                "scopeAbstractUnix": kernel.scope_abstract_unix,
                "scopeSignal": kernel.scope_signal,
                "unavailable": kernel.unavailable.map(|reason| json!({
                    "errno": errno_name(reason),
                    "reason": reason.to_string(),
                })),
            },
            "default": self.default,
            "ceiling": self.ceiling,
            "profiles": self.proofs.iter().map(proof_json).collect::<Vec<_>>(),
            "verdict": { "holds": self.verdict.holds, "reason": self.verdict.reason },
        })
    }
}

fn verdict(kernel: &Kernel, proofs: &[Proof]) -> Verdict {
    let failed = proofs.iter().find_map(|proof| proof.failure().map(|why| (&proof.profile, why)));
    match (failed, kernel.unavailable) {
        // Whatever else fails is its consequence.
        (Some(_), Some(reason)) => Verdict { holds: false, reason: reason.to_string() },
        (Some((profile, why)), None) => Verdict { holds: false, reason: format!("{profile}: {why}") },
        (None, _) => Verdict { holds: true, reason: gaps(proofs) },
    }
}

fn gaps(proofs: &[Proof]) -> String {
    let receipts = proofs.iter().filter_map(|proof| proof.receipt.as_ref());
    let partial = receipts.filter(|receipt| receipt.status != "full").count();
    match partial {
        0 => String::from("every launch is confined as its profile says"),
        _ => String::from("launches are confined, with the gaps that are listed"),
    }
}

fn errno_name(reason: Unavailable) -> String {
    match reason {
        Unavailable::NotImplemented => String::from("ENOSYS"),
        Unavailable::Disabled => String::from("EOPNOTSUPP"),
        Unavailable::Blocked => String::from("EPERM"),
        Unavailable::Other(errno) => errno.to_string(),
    }
}

fn proof_json(proof: &Proof) -> Value {
    json!({
        "profile": proof.profile.name(),
        "holds": proof.holds(),
        "refused": proof.refused,
        "network": proof.receipt.as_ref().map(|receipt| receipt.network.to_string()),
        "enforcement": proof.receipt.as_ref().map(policy::enforcement),
        "steps": proof.steps.iter().map(|step| json!({
            "step": step.what,
            "expected": expected(step.expected),
            "got": got(step),
            "holds": step.holds(),
            "error": step.error,
        })).collect::<Vec<_>>(),
    })
}

const fn expected(expected: Expected) -> &'static str {
    match expected {
        Expected::Allowed => "allowed",
        Expected::Denied => "denied",
    }
}

const fn got(step: &Step) -> &'static str {
    match step.error {
        None => "allowed",
        Some(_) => "denied",
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kernel = &self.kernel;
        writeln!(f, "sandbox-sidecar {VERSION}")?;
        writeln!(f, "kernel     {}", kernel.release)?;
        match kernel.unavailable {
            Some(reason) => writeln!(f, "landlock   none: {reason}")?,
            None => {
                writeln!(f, "landlock   ABI {} (the kernel reports {})", kernel.abi, kernel.reported_abi)?
            }
        }
        writeln!(f, "errata     {:#x}", kernel.errata)?;
        writeln!(
            f,
            "scopes     abstract unix sockets: {}, signals: {}",
            yes(kernel.scope_abstract_unix),
            yes(kernel.scope_signal)
        )?;
        writeln!(f, "default    {}", self.default)?;
        writeln!(f, "ceiling    {}", self.ceiling)?;
        for proof in &self.proofs {
            write_proof(f, proof)?;
        }
        let verdict = if self.verdict.holds { "holds" } else { "DOES NOT HOLD" };
        writeln!(f, "\nverdict    the ceiling {} {verdict}: {}", self.ceiling, self.verdict.reason)
    }
}

fn write_proof(f: &mut fmt::Formatter<'_>, proof: &Proof) -> fmt::Result {
    let status = proof.receipt.as_ref().map_or("refused", |receipt| receipt.status);
    writeln!(f, "\n{} ({status})", proof.profile)?;
    if let Some(refused) = &proof.refused {
        writeln!(f, "  {:4} {refused}", "FAIL")?;
    }
    for step in &proof.steps {
        let mark = if step.holds() { "ok" } else { "FAIL" };
        write!(f, "  {mark:4} {}: {}", step.what, got(step))?;
        match (&step.error, step.holds()) {
            (Some(error), false) => writeln!(f, ", expected {}: {error}", expected(step.expected))?,
            (None, false) => writeln!(f, ", expected {}", expected(step.expected))?,
            (_, true) => writeln!(f)?,
        }
    }
    let Some(receipt) = &proof.receipt else { return Ok(()) };
    writeln!(f, "       network        {}", receipt.network)?;
    for (part, state) in &receipt.parts {
        writeln!(f, "       {part:14} {state}")?;
    }
    for gap in &receipt.unenforced {
        writeln!(f, "       not enforced: {}: {}", gap.what, gap.why)?;
    }
    Ok(())
}

const fn yes(yes: bool) -> &'static str {
    if yes { "yes" } else { "no" }
}
