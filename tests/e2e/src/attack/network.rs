//! Ways onto the network, tried under each profile. The proof is taken at the listener, by the bytes that arrive.

use std::process::{Command, Output, Stdio};

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

/// Each way under each profile, over IPv4 and IPv6.
pub async fn rows(
    arenas: &mut [Arena; 2],
    report: &mut Report,
    wanted: &impl Fn(&str) -> bool,
    privileges: Privileges,
) {
    for family in [Family::V4, Family::V6] {
        for method in METHODS {
            let name = method.name.replace("send:", &family.title("send"));
            if !wanted(&name) {
                continue;
            }
            report.add(&match arenas[0].listeners.len() > family as usize {
                true => row(method, name, family, arenas, privileges).await,
                false => Row::about(&name, &method.errnos.join("/"), &[], Cell::good("no IPv6 here")),
            });
        }
    }
}

/// By its number among the listeners of an arena.
#[derive(Debug, Clone, Copy)]
enum Family {
    V4,
    V6,
}

impl Family {
    /// The beginning of a row's name.
    fn title(self, what: &str) -> String {
        match self {
            Family::V4 => format!("{what}:"),
            Family::V6 => format!("{what}, IPv6:"),
        }
    }
}

/// With the proof at the listener.
async fn row(
    method: &Method,
    name: String,
    family: Family,
    arenas: &mut [Arena; 2],
    privileges: Privileges,
) -> Row {
    let mut cells = Vec::new();
    for profile in PROFILES {
        let arena = run::arena(arenas, profile);
        let marker = format!("{}-{profile}", method.how);
        let listeners = &arena.listeners[family as usize];
        let words = send(method, listeners, &marker);
        let (process, _, seen) = arena.attack(&words, profile).await;
        let arrived = arena.listeners[family as usize].arrived(&marker);
        let open = has_network(profile) && method.with_network;
        let damage = arena.damage(&process).await;
        cells.push(match damage.as_str() {
            "" => cell(arrived, open, method.errnos, &seen),
            damage => Cell::bad(damage),
        });
    }
    let arena = &arenas[0];
    let control = control(method, &arena.listeners[family as usize], arena, privileges);
    Row { name, expected: method.errnos.join("/"), cells, control }
}

/// Whether what arrived is what is open, and how a refusal looks.
fn cell(arrived: bool, open: bool, errnos: &[&str], seen: &str) -> Cell {
    match (arrived, open) {
        (true, true) => Cell::good("arrives"),
        (false, true) => Cell::bad(format!("{seen}, and nothing arrived")),
        (true, false) => Cell::bad(format!("{seen}, and it ARRIVED")),
        (false, false) => run::judge(errnos, &Expected::Refused, seen),
    }
}

/// Without the sandbox it arrives there.
fn control(method: &Method, listeners: &Listeners, arena: &Arena, privileges: Privileges) -> Cell {
    let marker = format!("{}-control", method.how);
    let seen = arena.control(&send(method, listeners, &marker));
    match listeners.arrived(&marker) {
        true => Cell::good("arrives"),
        false if !privileges.all => Cell::good(format!("{seen} without it too")),
        false => Cell::bad(seen),
    }
}

fn send(method: &Method, listeners: &Listeners, marker: &str) -> Vec<String> {
    let address = if method.udp { listeners.udp } else { listeners.tcp };
    ["send", method.how, &address.to_string(), &format!("<{marker}>")].map(Into::into).to_vec()
}

/// The column of `workspaceWrite`, which a list of ports shapes.
const SHAPED: usize = 2;

/// The same with a list of one port, to that port and to another one: rows about `workspaceWrite`.
pub async fn one_port(
    conditions: &Conditions,
    report: &mut Report,
    wanted: &impl Fn(&str) -> bool,
    privileges: Privileges,
) {
    if !wanted("one port") {
        return;
    }
    let (allowed, other) = (Listeners::everywhere(), Listeners::everywhere());
    let ports: Vec<String> = allowed.iter().map(|listeners| listeners.tcp.port().to_string()).collect();
    let config = format!("network.tcpConnect = [{}]", ports.join(", "));
    if conditions.max_abi.is_some_and(|abi| abi < 4) {
        // Landlock looks at ports from ABI 4 on; below it every launch under such a ceiling is refused.
        return report.add(&refused(conditions, &config));
    }
    let mut arena = Arena::start_with(conditions, "workspaceWrite", &config, &[]).await;
    for (to, listeners) in [("it", &allowed), ("another", &other)] {
        for (family, listeners) in [Family::V4, Family::V6].into_iter().zip(listeners) {
            for method in METHODS {
                let title = family.title(&format!("one port, {to}"));
                let name = method.name.replace("send:", &title);
                report.add(&by_port(method, &name, to == "it", listeners, &mut arena, privileges).await);
            }
        }
    }
    report.add(&own_port(&mut arena).await);
}

async fn by_port(
    method: &Method,
    name: &str,
    is_listed: bool,
    listeners: &Listeners,
    arena: &mut Arena,
    privileges: Privileges,
) -> Row {
    let marker = format!("{}-{is_listed}", method.how);
    let (process, answer) = arena.start_hostile(&send(method, listeners, &marker), "workspaceWrite").await;
    let by_landlock = method.with_network && !method.udp;
    let errnos = if by_landlock { &["EACCES"] } else { method.errnos };
    let cell = match answer {
        Err(error) => Cell::bad(format!("no launch: {error}")),
        Ok(_) => {
            let seen = said(&arena.client.finish(&process).await);
            cell(listeners.arrived(&marker), is_listed && by_landlock, errnos, &seen)
        }
    };
    let control = control(method, listeners, arena, privileges);
    Row::about(name, &errnos.join("/"), &[(SHAPED, cell)], control)
}

/// The sidecar's own is on no list, not even for who has the token.
async fn own_port(arena: &mut Arena) -> Row {
    let words = arena.words("api-tcp {api} {token_text}").unwrap();
    let (process, _, seen) = arena.attack(&words, "workspaceWrite").await;
    let damage = arena.damage(&process).await;
    let cell = match damage.as_str() {
        "" => run::judge(&["EACCES"], &Expected::Refused, &seen),
        damage => Cell::bad(damage),
    };
    let control = match arena.control(&words) {
        seen if seen == "ok" => Cell::good(seen),
        seen => Cell::bad(seen),
    };
    Row::about("one port: its API, with the token", "EACCES", &[(SHAPED, cell)], control)
}

/// With `sandbox-sidecar run`, which ends in either case: `serve` does not even start.
fn refused(conditions: &Conditions, config: &str) -> Row {
    let with_list = run_nothing(conditions, config);
    let told = String::from_utf8_lossy(&with_list.stderr).contains("needs Landlock ABI 4");
    let cell = match (with_list.stdout.is_empty(), told) {
        (true, true) => Cell::good("no launch"),
        _ => Cell::bad(format!("{with_list:?}")),
    };
    let without = run_nothing(conditions, "");
    let control = match without.stdout.as_slice() {
        b"ok\n" => Cell::good("ok without the list"),
        _ => Cell::bad(format!("{without:?}")),
    };
    Row::about("one port", "no launch", &[(SHAPED, cell)], control)
}

/// One launch that does nothing, of a server with this config.
fn run_nothing(conditions: &Conditions, config: &str) -> Output {
    let scratch = Scratch::new();
    let (file, hostile) = (scratch.state().join("config.toml"), scratch.workspace().join("hostile"));
    std::fs::write(&file, config).unwrap();
    std::fs::copy(programs::hostile(), &hostile).unwrap();
    let mut command = Command::new(programs::sandbox_sidecar());
    command.args(["run", "--max-abi", &conditions.max_abi.unwrap_or_default().to_string()]);
    command.arg("--config").arg(&file).arg("--workspace-root").arg(scratch.workspace());
    command.arg("--").arg(&hostile).arg("nothing");
    clean_environment(&mut command, &scratch);
    command.stdin(Stdio::null()).output().unwrap()
}
