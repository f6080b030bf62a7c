//! From what a receipt claims to what must happen.

use serde_json::Value;

use super::table::{Attack, Guard};

/// What must come of an attack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// It is refused.
    Refused,
    /// The profile grants it.
    Granted,
    /// Nothing stops it, and the receipt says so. A refusal is no fault.
    Declared,
    /// The receipt neither claims to stop it nor names it: a fault whatever comes of it.
    Unsaid(String),
}

/// Whether a built-in profile has a network.
pub fn has_network(profile: &str) -> bool {
    matches!(profile, "workspaceWrite" | "none")
}

/// What a receipt must say where it does not claim the part.
fn gap(part: &str) -> &'static str {
    match part {
        "fsRead" | "fsWrite" | "truncate" => "files",
        "metadata" => "metadata of files outside the roots",
        "unixAbstract" => "abstract unix sockets",
        "unixPath" => "unix sockets by path outside the roots",
        "ioctlDev" => "ioctl on devices",
        "pty" => "terminals",
        "signal" => "signals to other launches and to the sidecar's threads",
        other => unreachable!("no row is about the part {other}"),
    }
}

/// What must come of `attack` under a profile, by the launch's receipt.
pub fn expected(attack: &Attack, profile: &str, receipt: &Value) -> Expected {
    let by_part = |part: &str| match receipt["parts"][part].as_str() {
        Some("full") => Expected::Refused,
        _ => declared(receipt, gap(part)),
    };
    match attack.guard {
        Guard::Kept => Expected::Refused,
        Guard::Granted => Expected::Granted,
        Guard::Part(part) => by_part(part),
        Guard::Writes(part) if profile == "readOnly" => by_part(part),
        Guard::Writes(_) => Expected::Granted,
        Guard::Network if has_network(profile) => Expected::Granted,
        Guard::Network => Expected::Refused,
        Guard::Declared(what) => declared(receipt, what),
    }
}

/// The receipt must name the gap.
pub fn declared(receipt: &Value, what: &str) -> Expected {
    let named = |entry: &Value| entry["what"].as_str().is_some_and(|text| text.contains(what));
    if receipt["unenforced"].as_array().is_some_and(|list| list.iter().any(named)) {
        Expected::Declared
    } else {
        Expected::Unsaid(what.to_owned())
    }
}
