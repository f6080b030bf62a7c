//! What was enforced for a launch, part by part.

use std::fmt;
use std::path::PathBuf;

use crate::network::{Network, Ports};
use crate::probe::Kernel;

/// How far a part is enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Not at all.
    Unsupported,
    /// With a gap that [`Receipt::unenforced`] names.
    Partial,
    /// As the policy says.
    Full,
}

impl State {
    /// The name on the wire; also the metric label.
    pub const fn name(self) -> &'static str {
        match self {
            State::Unsupported => "unsupported",
            State::Partial => "partial",
            State::Full => "full",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Something that the policy asks for and nothing here can enforce.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unenforced {
    /// What.
    pub what: String,
    /// Why not.
    pub why: String,
}

/// What was enforced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// `full`, `partial` or `none`.
    pub status: &'static str,
    /// The Landlock ABI in use; 0 where there is none.
    pub abi: u32,
    /// The profile's name; `custom` for translated permissions.
    pub profile: String,
    /// Each part by its name on the wire.
    pub parts: Vec<(&'static str, State)>,
    /// What the network is limited to.
    pub network: Network,
    /// The gaps.
    pub unenforced: Vec<Unenforced>,
}

/// Most directories that are named one by one.
const MAX_EXPANDED: usize = 8;

/// The parts whose gaps no kernel of today closes: they are always declared, and do not make a launch `partial`.
const DECLARED: [&str; 3] = ["unixPath", "metadata", "pty"];

/// What a receipt depends on, the kernel aside.
pub(crate) struct Terms<'a> {
    pub(crate) profile: &'a str,
    /// Whether there is any Landlock layer on files; not under the profile `none`.
    pub(crate) confined: bool,
    /// Whether nothing may be written.
    pub(crate) read_only: bool,
    /// Whether a launch may open no terminal but its own.
    pub(crate) own_pty: bool,
    /// What every layer leaves.
    pub(crate) network: &'a Network,
}

impl Receipt {
    /// What is enforced under a policy on this kernel. `unenforced` holds what the translation of a request left out.
    pub(crate) fn new(terms: &Terms<'_>, kernel: &Kernel, unenforced: Vec<Unenforced>) -> Self {
        let abi = kernel.abi;
        let profile = terms.profile.to_owned();
        let network = terms.network.clone();
        let mut receipt = Receipt { status: "none", abi, profile, parts: Vec::new(), network, unenforced };
        receipt.files(terms, abi);
        receipt.sockets(terms.network);
        receipt.scoped(kernel, terms.confined);
        receipt.metadata_and_devices(terms, abi);
        receipt.full(["seccomp", "noNewPrivs"]);
        receipt.tree_kill(kernel.scope_signal);
        receipt.open_everywhere();
        let degraded =
            receipt.parts.iter().any(|(part, state)| *state != State::Full && !DECLARED.contains(part));
        receipt.status = match (terms.confined, degraded) {
            (false, _) => "none",
            (true, true) => "partial",
            (true, false) => "full",
        };
        receipt
    }

    /// How far a part is enforced.
    pub fn part(&self, name: &str) -> Option<State> {
        self.parts.iter().find(|(part, _)| *part == name).map(|(_, state)| *state)
    }

    /// The same receipt for a launch whose tree can only be found by its tag.
    pub(crate) fn without_scope(mut self) -> Self {
        self.parts.retain(|(part, _)| *part != "treeKill");
        self.tree_kill(false);
        if self.status == "full" {
            self.status = "partial";
        }
        self
    }

    /// Names the writable directories that hold something which is cut out: what is new in them is not granted.
    pub(crate) fn expanded(&mut self, directories: &[(PathBuf, String)]) {
        for (dir, around) in directories.iter().take(MAX_EXPANDED) {
            let what = format!("new files in {}, and listing it", dir.display());
            let gap = Unenforced {
                what,
                why: format!("{around} is kept out, so the directory is not granted, only what is in it"),
            };
            if !self.unenforced.contains(&gap) {
                self.unenforced.push(gap);
            }
        }
        if let Some(more) = directories.len().checked_sub(MAX_EXPANDED).filter(|more| *more > 0) {
            self.note(&format!("new files in {more} more directories"), "something is kept out of each");
        }
    }

    fn full<const N: usize>(&mut self, parts: [&'static str; N]) {
        self.parts.extend(parts.map(|part| (part, State::Full)));
    }

    fn gap(&mut self, part: &'static str, state: State, what: &str, why: &str) {
        self.parts.push((part, state));
        self.note(what, why);
    }

    fn note(&mut self, what: &str, why: &str) {
        self.unenforced.push(Unenforced { what: what.to_owned(), why: why.to_owned() });
    }

    fn files(&mut self, terms: &Terms<'_>, abi: u32) {
        let state = if terms.confined && abi > 0 { State::Full } else { State::Unsupported };
        self.parts.extend(["fsRead", "fsWrite", "truncate"].map(|part| (part, state)));
        if !terms.confined {
            self.note("files", "the ceiling is none: what the sidecar's user may do, a launch may");
        } else if abi == 0 {
            self.note("files", "no Landlock here, and onUnsupported is degrade");
        } else if abi == 1 {
            self.note("renames across directories", "ABI 1 refuses each of them with EXDEV");
        }
    }

    /// No network is held by seccomp alone; open is as the policy says.
    fn sockets(&mut self, network: &Network) {
        let Network::Ports(Ports { bind, udp, .. }) = network else { return self.full(["tcp", "udp"]) };
        if bind.as_ref().is_some_and(|ports| !ports.contains(&0)) {
            let why =
                "listen without bind takes a port of the kernel's choice, which Landlock does not look at";
            self.gap("tcp", State::Partial, "listening on ports that are not in tcpBind", why);
        } else {
            self.full(["tcp"]);
        }
        if *udp && network.has_ports() {
            let why = "no kernel of today limits UDP to ports, and the policy allows it (udp = true)";
            self.gap("udp", State::Unsupported, "the ports of UDP", why);
        } else {
            self.full(["udp"]);
        }
    }

    fn scoped(&mut self, kernel: &Kernel, confined: bool) {
        if kernel.scope_abstract_unix {
            self.full(["unixAbstract"]);
        } else {
            let why = "scoping them needs Landlock ABI 6";
            self.gap("unixAbstract", State::Unsupported, "abstract unix sockets", why);
        }
        if confined && kernel.abi >= 9 {
            self.full(["unixPath"]);
        } else {
            let why = "gating connect on socket files needs Landlock ABI 9";
            self.gap("unixPath", State::Partial, "unix sockets by path outside the roots", why);
        }
        if kernel.scope_signal {
            self.full(["signal"]);
        } else {
            let why = "scoping them needs a working Landlock ABI 6; without it they are kept from the sidecar's own pid \
                       alone, not from its threads' ids nor by F_SETOWN";
            let what = "signals to other launches and to the sidecar's threads";
            self.gap("signal", State::Partial, what, why);
        }
    }

    fn metadata_and_devices(&mut self, terms: &Terms<'_>, abi: u32) {
        if terms.confined && abi >= 5 {
            self.full(["ioctlDev"]);
        } else {
            self.gap("ioctlDev", State::Unsupported, "ioctl on devices", "gating it needs Landlock ABI 5");
        }
        if terms.read_only {
            self.full(["metadata"]);
        } else {
            let why = "Landlock does not gate chmod, chown, utimes and xattrs; file ownership does";
            self.gap("metadata", State::Partial, "metadata of files outside the roots", why);
        }
        if terms.own_pty && terms.confined && abi > 0 {
            self.full(["pty"]);
        } else {
            let why = "launches of one sidecar share the devpts: another could open this one's terminal";
            self.gap("pty", State::Partial, "terminals", why);
        }
    }

    /// What neither Landlock nor seccomp can stop under any profile on any kernel.
    fn open_everywhere(&mut self) {
        let why = "Landlock does not gate stat, access, readlink, chdir and inotify; file modes do";
        self.note("looking at files outside the roots", why);
        self.note("command lines of other processes", "/proc tells them to everybody in the container");
        let why = "System V and POSIX IPC are the user's, and so one for all launches; /dev/shm too where it is granted";
        self.note("shared memory and message queues", why);
        let why = "thread libraries set it by thread id, of which a filter cannot tell whose it is";
        self.note("CPU affinity of other processes", why);
    }

    fn tree_kill(&mut self, scoped: bool) {
        if scoped {
            self.full(["treeKill"]);
        } else {
            let why = "without the signal scope it goes by tag, process by process; a launch that has stopped its shim \
                       outlives a sidecar that is killed";
            self.gap("treeKill", State::Partial, "ending a tree at once", why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = include_str!("../../../docs/threat-model.md");

    fn receipt(abi: u32, scope_signal: bool, confined: bool) -> Receipt {
        let kernel = Kernel {
            abi,
            reported_abi: abi,
            errata: 0,
            unavailable: None,
            scope_abstract_unix: abi >= 6,
            scope_signal,
            release: String::new(),
        };
        let network = Network::None;
        let terms = Terms { profile: "p", confined, read_only: false, own_pty: false, network: &network };
        Receipt::new(&terms, &kernel, Vec::new())
    }

    #[test]
    fn the_documented_table_is_what_receipts_say() {
        let columns = [
            vec![receipt(1, false, true)],
            vec![receipt(2, false, true)],
            vec![receipt(3, false, true)],
            vec![receipt(4, false, true)],
            vec![receipt(5, false, true)],
            vec![receipt(6, false, true)],
            vec![receipt(6, true, true), receipt(7, true, true), receipt(8, true, true)],
            vec![receipt(9, true, true)],
        ];
        for (part, _) in &columns[0][0].parts {
            let mut row = format!("| {part} |");
            for receipts in &columns {
                let states: Vec<_> = receipts.iter().map(|receipt| receipt.part(part).unwrap()).collect();
                assert!(states.iter().all(|state| *state == states[0]), "{part}: {states:?}");
                row += &format!(" {} |", states[0]);
            }
            assert!(DOCUMENT.lines().any(|line| line == row), "docs/threat-model.md lacks\n{row}");
        }
    }

    #[test]
    fn every_gap_is_in_the_threat_model_by_its_name() {
        for abi in 0..=9 {
            for confined in [true, false] {
                for gap in receipt(abi, abi > 6, confined).unenforced {
                    assert!(
                        DOCUMENT.contains(&gap.what),
                        "docs/threat-model.md does not name {:?}",
                        gap.what
                    );
                }
            }
        }
    }
}
