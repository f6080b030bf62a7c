//! The tables of docs/sandbox.md that follow from the code. A test compares them; with `UPDATE_DOCS` set it writes them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::landlock::Grant;
use crate::network::{Network, PORTS_ABI};
use crate::policy::{Options, Roots, TmpPolicy};
use crate::probe::Kernel;
use crate::profile::Profile;
use crate::receipt::{Receipt, State, Terms};
use crate::resolve::{self, Tree};

const DOC: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sandbox.md");

/// Nodes of today, and the kernel that they come with. The ABI of a kernel is from landlock(7).
const NODES: [(&str, &str, u32); 7] = [
    ("gVisor", "its own", 0),
    ("Ubuntu 22.04", "5.15", 1),
    ("Amazon Linux 2023 up to Kubernetes 1.32, Debian 12", "6.1", 2),
    ("", "6.2", 3),
    ("Ubuntu 24.04", "6.8", 4),
    ("", "6.10", 5),
    ("Amazon Linux 2023 and Debian 13 with the newer kernel", "6.12", 6),
];

fn options() -> Options {
    let roots = Roots {
        workspace: "the workspace".into(),
        home: Some("~".into()),
        tmp: "/tmp".into(),
        read_roots: vec!["`readRoots`".into()],
        write_roots: vec!["`writeRoots`".into()],
        protected: vec![],
    };
    Options::new(roots)
}

fn profiles() -> String {
    let options = options();
    let columns = [Profile::ReadOnly, Profile::WorkspaceWriteNoNetwork, Profile::WorkspaceWrite];
    let trees = columns.clone().map(|profile| resolve::profile_trees(&profile, &options));
    let [_, _, widest] = &trees;
    let mut rows: Vec<Vec<&Path>> = Vec::new();
    for tree in widest {
        // Those that are alike under every profile share a row.
        let alike = |row: &&mut Vec<&Path>| cells(&trees, row[0]) == cells(&trees, &tree.path);
        match rows.iter_mut().find(alike) {
            Some(row) => row.push(&tree.path),
            None => rows.push(vec![&tree.path]),
        }
    }
    let mut table = String::from(
        "| path | `readOnly` | `workspaceWriteNoNetwork` | `workspaceWrite` |\n|---|---|---|---|\n",
    );
    for row in rows {
        let paths: Vec<_> = row.iter().map(|path| path.display().to_string()).collect();
        table += &format!("| {} | {} |\n", paths.join(" "), cells(&trees, row[0]).join(" | "));
    }
    let tmp = columns.clone().map(|profile| match profile.tmp(&options) {
        Some(TmpPolicy::Private) => "its own, removed with it",
        _ => "/tmp",
    });
    table += &format!("| temporary files | {} |\n", tmp.join(" | "));
    let network = columns.map(|profile| profile.network(&options).to_string());
    table + &format!("| network | {} |\n", network.join(" | "))
}

fn cells(trees: &[Vec<Tree>; 3], path: &Path) -> [&'static str; 3] {
    [0, 1, 2].map(|n: usize| {
        let of = |tree: &&Tree| tree.path == path;
        trees[n].iter().filter(of).map(|t| t.grant).max().map_or("–", |grant| match grant {
            Grant::Read => "read, execute",
            Grant::Device => "read, write",
            Grant::Write => "read, execute, write",
        })
    })
}

fn protected() -> String {
    let places = resolve::protected_places(&options().roots);
    // Every home has the same ones.
    let of = |home: &str| -> BTreeSet<PathBuf> {
        places.iter().filter_map(|p| p.strip_prefix(home).ok()).map(|p| Path::new("~").join(p)).collect()
    };
    assert_eq!(of("~"), of("/root"));
    let fixed =
        places.iter().filter(|p| !p.starts_with("~") && !p.starts_with("/root") && !p.starts_with("/home"));
    let all = fixed.cloned().chain(of("~"));
    format!("{}\n", all.map(|p| format!("`{}`", p.display())).collect::<Vec<_>>().join(" "))
}

fn kernel(abi: u32) -> Kernel {
    Kernel {
        abi,
        reported_abi: abi,
        errata: 0,
        unavailable: None,
        scope_abstract_unix: abi >= 6,
        scope_signal: abi >= 6,
        release: String::new(),
    }
}

fn nodes() -> String {
    let terms =
        Terms { profile: "", confined: true, read_only: false, own_pty: false, network: &Network::Open };
    let best = Receipt::new(&terms, &kernel(6), vec![]);
    let mut table = String::from(
        "| node | kernel | ABI | launches | port lists | less than at ABI 6 |\n|---|---|---|---|---|---|\n",
    );
    for (node, release, abi) in NODES {
        let receipt = Receipt::new(&terms, &kernel(abi), vec![]);
        let less: Vec<_> = receipt
            .parts
            .iter()
            .filter(|(part, state)| best.part(part) != Some(*state) && *state != State::Full)
            .map(|(part, state)| format!("`{part}` {state}"))
            .collect();
        let (status, less) = match abi {
            0 => ("refused", String::from("everything")),
            _ => (receipt.status, less.join(", ")),
        };
        let ports = if abi >= PORTS_ABI { "yes" } else { "refused" };
        let node = if node.is_empty() { "–" } else { node };
        let abi = if abi == 0 { String::from("none") } else { abi.to_string() };
        table += &format!(
            "| {node} | {release} | {abi} | {status} | {ports} | {} |\n",
            if less.is_empty() { "–" } else { &less }
        );
    }
    table
}

/// The names in one list of both architectures, by the text: the numbers have none.
fn list(name: &str) -> [BTreeSet<String>; 2] {
    [include_str!("syscalls/x86_64.rs"), include_str!("syscalls/aarch64.rs")].map(|text| {
        let start = text.find(&format!("const {name}: &[i64]")).unwrap();
        let body = text[start..].split_once('=').unwrap().1.split_once("];").unwrap().0;
        let names = body
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .filter_map(|w| w.strip_prefix("SYS_"));
        names.map(str::to_ascii_lowercase).collect()
    })
}

fn seccomp() -> String {
    let mut table = String::from("| answer | calls |\n|---|---|\n");
    for (answer, name) in
        [("EPERM", "DENIED"), ("EPERM where nothing may be written", "METADATA"), ("ENOSYS", "ABSENT")]
    {
        let [x86, arm] = list(name);
        let names = |set: &mut dyn Iterator<Item = &String>| {
            set.map(|n| format!("`{n}`")).collect::<Vec<_>>().join(" ")
        };
        table += &format!("| {answer} | {} |\n", names(&mut x86.intersection(&arm)));
        for (arch, mine, other) in [("x86_64", &x86, &arm), ("aarch64", &arm, &x86)] {
            let own = names(&mut mine.difference(other));
            if !own.is_empty() {
                table += &format!("| {answer}, {arch} alone | {own} |\n");
            }
        }
    }
    table
}

#[test]
fn the_docs_have_the_tables_of_the_code() {
    let mut doc = std::fs::read_to_string(DOC).unwrap();
    let tables =
        [("profiles", profiles()), ("protected", protected()), ("nodes", nodes()), ("seccomp", seccomp())];
    let mut stale = Vec::new();
    for (name, table) in tables {
        let open = format!("<!-- {name}: from the code -->\n\n");
        let start = doc.find(&open).unwrap_or_else(|| panic!("docs/sandbox.md has no {open:?}")) + open.len();
        let end = start + doc[start..].find("\n<!-- end -->").unwrap();
        if doc[start..end] != table {
            stale.push(name);
            doc.replace_range(start..end, &table);
        }
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(DOC, doc).unwrap();
        return;
    }
    assert!(stale.is_empty(), "docs/sandbox.md differs in {stale:?}: write them with `make docs-tables`");
}
