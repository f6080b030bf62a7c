//! Ways onto the network, tried under each profile. The proof is taken at the listener, by the bytes that arrive.

use std::process::{Command, Stdio};

use super::PROFILES;
use super::arena::{Arena, Conditions, said};
use super::expect::{Expected, has_network};
use super::listeners::Listeners;
use super::report::{Cell, Report, Row};
use super::run::{self, Privileges};
use crate::server::clean_environment;
use crate::{Scratch, programs};

/// One way to send something.
#[derive(Debug, Clone, Copy)]
pub struct Method {
    /// The row's name.
    pub name: &'static str,
    /// The hostile program's word for it.
    pub how: &'static str,
    /// To the UDP listener.
    pub udp: bool,
    /// Whether a profile with a network lets it through. Those that pass Landlock's TCP rules are refused by all.
    pub with_network: bool,
    /// What a refusal looks like.
    pub errnos: &'static [&'static str],
}

const fn tcp(
    name: &'static str,
    how: &'static str,
    with_network: bool,
    errnos: &'static [&'static str],
) -> Method {
    Method { name, how, udp: false, with_network, errnos }
}

const fn udp(name: &'static str, how: &'static str) -> Method {
    Method { name, how, udp: true, with_network: true, errnos: &["EPERM"] }
}

/// All of them.
pub const METHODS: &[Method] = &[
    tcp("send: TCP connect", "connect", true, &["EPERM"]),
    tcp("send: TCP_FASTOPEN_CONNECT", "fastopen-connect", true, &["EPERM"]),
    tcp("send: MSG_FASTOPEN by sendto", "fastopen-sendto", false, &["EPERM"]),
    tcp("send: MSG_FASTOPEN by sendmsg", "fastopen-sendmsg", false, &["EPERM"]),
    tcp("send: MSG_FASTOPEN by sendmmsg", "fastopen-sendmmsg", false, &["EPERM"]),
    tcp("send: MPTCP", "mptcp", false, &["EPERM"]),
    tcp("send: io_uring connect", "io_uring", false, &["ENOSYS"]),
    udp("send: UDP sendto", "udp"),
    udp("send: UDP connect and send", "udp-connected"),
];

/// One way onto the network, under each profile, with the proof at the listener.
pub async fn row(method: &Method, arenas: &mut [Arena; 2], privileges: Privileges) -> Row {
    let mut cells = Vec::new();
    for profile in PROFILES {
        let arena = run::arena(arenas, profile);
        let marker = format!("{}-{profile}", method.how);
        let words = send(method, arena, &marker);
        let (process, _, seen) = arena.attack(&words, profile).await;
        let arrived = arena.listeners.arrived(&marker);
        let open = has_network(profile) && method.with_network;
        let damage = arena.damage(&process).await;
        cells.push(match (damage.as_str(), arrived == open, open) {
            ("", true, true) => Cell::good("arrives"),
            ("", true, false) => run::judge(method.errnos, &Expected::Refused, &seen),
            ("", false, true) => Cell::bad(format!("{seen}, and nothing arrived")),
            ("", false, false) => Cell::bad(format!("{seen}, and it ARRIVED")),
            _ => Cell::bad(damage),
        });
    }
    let arena = &arenas[0];
    let marker = format!("{}-control", method.how);
    let seen = arena.control(&send(method, arena, &marker));
    let control = match arena.listeners.arrived(&marker) {
        true => Cell::good("arrives"),
        false if !privileges.all => Cell::good(format!("{seen} without it too")),
        false => Cell::bad(seen),
    };
    Row { name: method.name.into(), expected: method.errnos.join("/"), cells, control }
}

fn send(method: &Method, arena: &Arena, marker: &str) -> Vec<String> {
    let listeners = &arena.listeners;
    let address = if method.udp { listeners.udp } else { listeners.tcp };
    ["send", method.how, &address.to_string(), &format!("<{marker}>")].map(Into::into).to_vec()
}

/// The same with a list of one port, to that port and to another one: rows about `workspaceWrite`, which it shapes.
pub async fn one_port(conditions: &Conditions, report: &mut Report, wanted: &impl Fn(&str) -> bool) {
    if !wanted("one port") {
        return;
    }
    let (allowed, other) = (Listeners::start(), Listeners::start());
    let config = format!("network.tcpConnect = [{}]", allowed.tcp.port());
    if conditions.max_abi.is_some_and(|abi| abi < 4) {
        // Landlock looks at ports from ABI 4 on; below it every launch under such a ceiling is refused.
        return report.add(&refused(conditions, &config));
    }
    let mut arena = Arena::start_with(conditions, "workspaceWrite", &config).await;
    for (listeners, to) in [(&allowed, "it"), (&other, "another")] {
        for method in METHODS {
            let name = method.name.replace("send:", &format!("one port, {to}:"));
            let marker = format!("{}-{to}", method.how);
            let address = if method.udp { listeners.udp } else { listeners.tcp };
            let words = ["send", method.how, &address.to_string(), &format!("<{marker}>")].map(Into::into);
            let (process, answer) = arena.start_hostile(&words, "workspaceWrite").await;
            let open = to == "it" && method.with_network && !method.udp;
            let cell = match answer {
                Err(error) => Cell::bad(format!("no launch: {error}")),
                Ok(_) => {
                    let seen = said(&arena.client.finish(&process).await);
                    let errnos: Vec<&str> = match (to, method.with_network && !method.udp) {
                        ("another", true) => vec!["EACCES"],
                        _ => method.errnos.to_vec(),
                    };
                    match (listeners.arrived(&marker), open) {
                        (true, true) => Cell::good("arrives"),
                        (false, true) => Cell::bad(format!("{seen}, and nothing arrived")),
                        (true, false) => Cell::bad(format!("{seen}, and it ARRIVED")),
                        (false, false) => run::judge(&errnos, &Expected::Refused, &seen),
                    }
                }
            };
            let cells = (0..4).map(|n| if n == 2 { cell.clone() } else { Cell::good("-") }).collect();
            report.add(&Row { name, expected: "as above".into(), cells, control: Cell::good("") });
        }
    }
}

/// With `sandbox-sidecar run`, which ends in either case: `serve` does not even start.
fn refused(conditions: &Conditions, config: &str) -> Row {
    let scratch = Scratch::new();
    let (file, hostile) = (scratch.state().join("config.toml"), scratch.workspace().join("hostile"));
    std::fs::write(&file, config).unwrap();
    std::fs::copy(programs::hostile(), &hostile).unwrap();
    let mut command = Command::new(programs::sandbox_sidecar());
    command.args(["run", "--max-abi", &conditions.max_abi.unwrap_or_default().to_string()]);
    command.arg("--config").arg(&file).arg("--workspace-root").arg(scratch.workspace());
    command.arg("--").arg(&hostile).arg("nothing");
    clean_environment(&mut command, &scratch);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).contains("needs Landlock ABI 4");
    let cell = match (output.stdout.is_empty(), told) {
        (true, true) => Cell::good("no launch"),
        _ => Cell::bad(format!("{output:?}")),
    };
    let cells = (0..4).map(|n| if n == 2 { cell.clone() } else { Cell::good("-") }).collect();
    Row { name: "one port".into(), expected: "no launch".into(), cells, control: Cell::good("") }
}
