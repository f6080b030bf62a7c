//! What agent-client itself says on stderr: the receipt, notes on an end, failures. Each line starts with its name, so
//! that it is not taken for the command's.

use agent_client::protocol::process::{Enforcement, LimitedNetwork};
use agent_client::{Error, Exit};

pub(super) fn say(line: &str) {
    eprintln!("agent-client: {line}");
}

/// Why there is no exit code of the command.
pub(super) fn failure(error: &anyhow::Error) {
    match error.downcast_ref::<Error>() {
        // The server's words name the program or the path; its code is for programs.
        Some(e @ Error::Rpc { error, .. }) => {
            let data = e.data().unwrap_or_default();
            match data.path.filter(|path| !error.message.contains(path.as_str())) {
                Some(path) => say(&format!("{path}: {}", error.message)),
                None => say(&error.message),
            }
            if let Some(hint) = data.hint {
                say(&format!("to allow it: {hint}"));
            }
        }
        _ => say(&format!("{error:#}")),
    }
}

/// What the sandbox enforces.
pub(super) fn receipt(enforcement: Option<&Enforcement>) {
    receipt_lines(enforcement).iter().for_each(|line| say(line));
}

fn receipt_lines(enforcement: Option<&Enforcement>) -> Vec<String> {
    let Some(e) = enforcement else {
        return vec!["sandbox: this server gives no receipt; nothing is known to be enforced".to_owned()];
    };
    let parts: Vec<String> = e.parts.iter().map(|(part, state)| format!("{part}={state}")).collect();
    let mut lines = vec![
        format!("sandbox: status={} landlockAbi={} profile={}", e.status, e.abi, e.profile),
        format!("sandbox: parts {}", parts.join(" ")),
    ];
    lines.extend(e.network.as_ref().map(|network| format!("sandbox: network {}", limits(network))));
    lines.extend(e.unenforced.iter().map(|gap| format!("sandbox: not enforced: {}: {}", gap.what, gap.why)));
    lines
}

fn limits(network: &LimitedNetwork) -> String {
    let ports = |ports: &Option<Vec<u16>>| match ports.as_deref() {
        None => "any".to_owned(),
        Some([]) => "none".to_owned(),
        Some(ports) => ports.iter().map(u16::to_string).collect::<Vec<_>>().join(","),
    };
    let udp = if network.udp { "any" } else { "none" };
    format!("tcpConnect={} tcpBind={} udp={udp}", ports(&network.tcp_connect), ports(&network.tcp_bind))
}

/// What the exit code alone does not say.
pub(super) fn notes(exit: &Exit) {
    exit.notes().iter().for_each(|line| say(line));
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use agent_client::protocol::process::Unenforced;

    use super::*;

    #[test]
    fn a_receipt_says_all_of_it() {
        let enforcement = Enforcement {
            status: "partial".into(),
            abi: 7,
            profile: "workspaceWrite".into(),
            parts: BTreeMap::from([("fsRead".into(), "full".into()), ("udp".into(), "partial".into())]),
            network: Some(LimitedNetwork {
                tcp_connect: Some(vec![80, 443]),
                tcp_bind: Some(vec![]),
                udp: true,
            }),
            unenforced: vec![Unenforced { what: "write:/ws/.git".into(), why: "Landlock only adds".into() }],
        };
        assert_eq!(
            receipt_lines(Some(&enforcement)),
            [
                "sandbox: status=partial landlockAbi=7 profile=workspaceWrite",
                "sandbox: parts fsRead=full udp=partial",
                "sandbox: network tcpConnect=80,443 tcpBind=none udp=any",
                "sandbox: not enforced: write:/ws/.git: Landlock only adds",
            ]
        );
        assert!(receipt_lines(None)[0].contains("no receipt"));
    }
}
