//! What has to be done so that the destination holds what the source does: a pure function of the two listings.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::tree::{Listing, MODE_BITS, Node};
use super::{Report, Skipped};

/// One thing to do, for a dry run to tell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// What.
    pub action: &'static str,
    /// Where, below the roots.
    #[serde(serialize_with = "super::lossy")]
    pub path: PathBuf,
}

/// What has to be done, in the order of the fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// What is to be removed, children first; what takes the place of something of another kind comes after.
    pub(super) deletions: Vec<Deletion>,
    /// Files and symlinks that something of another kind takes the place of.
    pub(super) in_the_way: Vec<PathBuf>,
    /// Directories to be made, parents first, with their modes.
    pub(super) directories: Vec<(PathBuf, u32)>,
    /// Files to be written.
    pub(super) files: Vec<File>,
    /// Symlinks to be made, with their targets.
    pub(super) symlinks: Vec<(PathBuf, PathBuf)>,
    pub(super) unchanged: u64,
    pub(super) skipped: Vec<Skipped>,
}

/// A file to be written, as the source lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct File {
    pub(super) path: PathBuf,
    pub(super) size: u64,
    pub(super) modified_at_ms: i64,
    pub(super) mode: u32,
}

/// Something to be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Deletion {
    pub(super) path: PathBuf,
    pub(super) is_directory: bool,
}

impl Plan {
    /// How many files are to be written.
    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// How many bytes they have.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.size).sum()
    }

    /// What a dry run tells.
    pub fn into_report(self) -> Report {
        let mut report = Report {
            files: self.files.len() as u64,
            bytes: self.bytes(),
            directories: self.directories.len() as u64,
            symlinks: self.symlinks.len() as u64,
            deleted: self.deletions.len() as u64,
            unchanged: self.unchanged,
            skipped: self.skipped,
            steps: Vec::new(),
        };
        let mut step = |action, path: &Path| report.steps.push(Step { action, path: path.to_owned() });
        self.deletions.iter().for_each(|deletion| step("delete", &deletion.path));
        self.directories.iter().for_each(|(path, _)| step("makeDirectory", path));
        self.files.iter().for_each(|file| step("write", &file.path));
        self.symlinks.iter().for_each(|(path, _)| step("makeSymlink", path));
        report
    }
}

/// Plans. Without `delete`, no directory of the destination is replaced by something else, and nothing is removed that
/// the source does not have.
pub fn plan(source: Listing, destination: Listing, delete: bool) -> Plan {
    let mut plan = Plan { skipped: source.skipped, ..Plan::default() };
    for (path, node) in &source.nodes {
        plan.add(path, node, destination.nodes.get(path), delete);
    }
    if delete {
        // A directory that keeps something cannot go: what is left out on purpose, or what the source could not show.
        let shown = |path: &Path| !plan.skipped.iter().any(|skipped| path.starts_with(&skipped.path));
        let kept = |path: &Path| destination.excluded.iter().any(|kept| kept.starts_with(path));
        let stays = |path: &Path, node: &Node| {
            let is_directory = |node: &Node| matches!(node, Node::Directory { .. });
            source.nodes.get(path).is_some_and(|new| is_directory(new) || !is_directory(node))
        };
        let gone = destination.nodes.iter().rev().filter(|(path, node)| !stays(path, node));
        let deletions: Vec<_> = gone
            .map(|(path, node)| Deletion {
                path: path.clone(),
                is_directory: matches!(node, Node::Directory { .. }),
            })
            .filter(|deletion| shown(&deletion.path) && !(deletion.is_directory && kept(&deletion.path)))
            .collect();
        plan.deletions = deletions;
    }
    plan
}

impl Plan {
    fn add(&mut self, path: &Path, node: &Node, there: Option<&Node>, delete: bool) {
        let is_replaced = match (node, there) {
            (Node::Other, _) => {
                return self.skip(path, "a FIFO, a socket or a device is not transferred");
            }
            (Node::Directory { .. }, Some(Node::Directory { .. })) => return,
            (_, Some(Node::Directory { .. })) if !delete => {
                return self.skip(path, "a directory is in its place; --delete would replace it");
            }
            // It is among the deletions.
            (_, Some(Node::Directory { .. })) => false,
            (Node::File { .. }, Some(Node::File { .. })) => false,
            // A symlink takes the place of a file or a symlink by itself.
            (Node::Symlink { .. }, Some(_)) => false,
            (_, there) => there.is_some(),
        };
        let owned = path.to_owned();
        if is_replaced {
            self.in_the_way.push(owned.clone());
        }
        match node {
            Node::Directory { mode } => self.directories.push((owned, mode & MODE_BITS)),
            _ if there.is_some_and(|there| is_same(node, there)) => self.unchanged += 1,
            &Node::File { size, modified_at_ms, mode } => {
                self.files.push(File { path: owned, size, modified_at_ms, mode: mode & MODE_BITS });
            }
            Node::Symlink { target } => self.symlinks.push((owned, target.clone())),
            Node::Other => {}
        }
    }

    fn skip(&mut self, path: &Path, reason: &str) {
        self.skipped.push(Skipped { path: path.to_owned(), reason: reason.to_owned() });
    }
}

fn is_same(node: &Node, there: &Node) -> bool {
    match (node, there) {
        (
            Node::File { size, modified_at_ms, mode },
            Node::File { size: other_size, modified_at_ms: other_time, mode: other_mode },
        ) => (size, modified_at_ms, mode & MODE_BITS) == (other_size, other_time, other_mode & MODE_BITS),
        (node, there) => node == there,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(size: u64) -> Node {
        Node::File { size, modified_at_ms: 5, mode: 0o100_644 }
    }

    fn directory() -> Node {
        Node::Directory { mode: 0o755 }
    }

    fn link(target: &str) -> Node {
        Node::Symlink { target: target.into() }
    }

    fn listing(nodes: &[(&str, Node)]) -> Listing {
        let nodes = nodes.iter().map(|(path, node)| (PathBuf::from(path), node.clone())).collect();
        Listing { nodes, ..Listing::default() }
    }

    fn steps(plan: &Plan) -> Vec<String> {
        let steps = plan.clone().into_report().steps;
        steps.iter().map(|step| format!("{} {}", step.action, step.path.display())).collect()
    }

    #[test]
    fn only_what_differs_is_done() {
        let source = listing(&[
            ("", directory()),
            ("d", directory()),
            ("d/new", file(1)),
            ("same", file(2)),
            ("larger", file(3)),
            ("link", link("a")),
            ("turned", link("b")),
            ("fifo", Node::Other),
        ]);
        let destination = listing(&[
            ("", directory()),
            ("same", file(2)),
            ("larger", file(2)),
            ("link", link("a")),
            ("turned", link("c")),
            ("stays", file(1)),
        ]);
        let plan = plan(source, destination, false);
        assert_eq!(steps(&plan), ["makeDirectory d", "write d/new", "write larger", "makeSymlink turned"]);
        assert_eq!((plan.unchanged, plan.bytes()), (2, 4));
        assert_eq!(plan.skipped.len(), 1, "{:?}", plan.skipped);
    }

    #[test]
    fn another_time_or_mode_is_another_file() {
        for other in [
            Node::File { size: 2, modified_at_ms: 6, mode: 0o644 },
            Node::File { size: 2, modified_at_ms: 5, mode: 0o600 },
        ] {
            let plan = plan(listing(&[("a", file(2))]), listing(&[("a", other)]), false);
            assert_eq!(steps(&plan), ["write a"]);
        }
    }

    #[test]
    fn deletions_go_from_the_inside_out_and_keep_what_is_left_out() {
        let source = listing(&[("", directory()), ("a", file(1))]);
        let mut destination = listing(&[
            ("", directory()),
            ("a", file(1)),
            ("gone", directory()),
            ("gone/x", file(1)),
            ("kept", directory()),
            ("kept/y", file(1)),
        ]);
        destination.excluded.insert("kept/target".into());
        assert!(steps(&plan(source.clone(), destination.clone(), false)).is_empty());
        let deletions = steps(&plan(source.clone(), destination.clone(), true));
        assert_eq!(deletions, ["delete kept/y", "delete gone/x", "delete gone"]);

        // What the source could not show is not taken for gone.
        let mut blind = source;
        blind.skip("gone", "Permission denied");
        assert_eq!(steps(&plan(blind, destination, true)), ["delete kept/y"]);
    }

    #[test]
    fn a_directory_gives_way_only_where_deleting_was_asked_for() {
        let source = listing(&[("", directory()), ("x", file(1))]);
        let destination = listing(&[("", directory()), ("x", directory()), ("x/y", file(1))]);
        let refused = plan(source.clone(), destination.clone(), false);
        assert!(steps(&refused).is_empty());
        assert!(refused.skipped[0].reason.contains("--delete"), "{:?}", refused.skipped);
        assert_eq!(steps(&plan(source, destination, true)), ["delete x/y", "delete x", "write x"]);
    }

    #[test]
    fn what_is_no_directory_gives_way() {
        let source = listing(&[("d", directory()), ("f", file(1)), ("l", link("a"))]);
        let destination = listing(&[("d", file(1)), ("f", link("b")), ("l", file(1))]);
        let plan = plan(source, destination, false);
        assert_eq!(plan.in_the_way, [PathBuf::from("d"), PathBuf::from("f")]);
        assert_eq!(steps(&plan), ["makeDirectory d", "write f", "makeSymlink l"]);
    }
}
