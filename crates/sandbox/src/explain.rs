//! Which rights a path gets under a policy, and from which rules: the same arithmetic as the kernel's, in the open.
//!
//! A layer gives the union of the rules on the path's ancestors; the launch gets what every layer gives.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::landlock::Grant;
use crate::resolve::Granted;

/// What a launch may do with one path. File permissions come on top.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Access {
    /// Open for reading.
    pub read: bool,
    /// List, where it is a directory.
    pub list: bool,
    /// Execute.
    pub execute: bool,
    /// Open for writing, truncate; create, remove and rename, where it is a directory.
    pub write: bool,
}

/// A rule that covers a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Which layer: 0 is the operator's ceiling, the others what is asked for beyond it.
    pub layer: usize,
    /// The tree that it is on.
    pub tree: PathBuf,
    /// `read`, `write` or `device`.
    pub grant: &'static str,
    /// The config key or wire entry behind it.
    pub from: String,
}

/// Which rights a path gets, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The path with symlinks resolved.
    pub path: PathBuf,
    /// What every layer gives.
    pub access: Access,
    /// Each rule that covers it.
    pub rules: Vec<Rule>,
}

impl Access {
    /// Where nothing is confined.
    pub(crate) const ALL: Access = Access { read: true, list: true, execute: true, write: true };

    const fn of(grant: Grant) -> Self {
        match grant {
            Grant::Read => Access { write: false, ..Self::ALL },
            Grant::Device => Access { list: false, execute: false, ..Self::ALL },
            Grant::Write => Self::ALL,
        }
    }

    fn zip(self, other: Self, join: fn(bool, bool) -> bool) -> Self {
        Access {
            read: join(self.read, other.read),
            list: join(self.list, other.list),
            execute: join(self.execute, other.execute),
            write: join(self.write, other.write),
        }
    }
}

/// The path with symlinks resolved as far as it exists.
pub(crate) fn resolve(path: &Path) -> PathBuf {
    let mut rest: Vec<OsString> = Vec::new();
    let mut base = path.to_owned();
    loop {
        if let Ok(mut canonical) = std::fs::canonicalize(&base) {
            canonical.extend(rest.iter().rev());
            return canonical;
        }
        match (base.file_name(), base.parent()) {
            (Some(name), Some(parent)) => {
                rest.push(name.to_owned());
                base = parent.to_owned();
            }
            _ => return path.to_owned(),
        }
    }
}

fn covering<'a>(path: &'a Path, trees: &'a [Granted]) -> impl Iterator<Item = &'a Granted> {
    trees.iter().filter(move |t| path.starts_with(&t.path))
}

/// What every layer gives; nothing where there is no layer.
pub(crate) fn access<'a>(path: &Path, layers: impl Iterator<Item = &'a [Granted]>) -> Access {
    let union = |trees: &[Granted]| {
        covering(path, trees).fold(Access::default(), |sum, t| sum.zip(Access::of(t.grant), |a, b| a || b))
    };
    layers.map(union).reduce(|a, b| a.zip(b, |a, b| a && b)).unwrap_or_default()
}

/// Each rule that covers the path.
pub(crate) fn rules<'a>(path: &Path, layers: impl Iterator<Item = &'a [Granted]>) -> Vec<Rule> {
    let rule = |layer: usize, t: &Granted| Rule {
        layer,
        tree: t.path.clone(),
        grant: t.grant.name(),
        from: t.from.clone(),
    };
    layers
        .enumerate()
        .flat_map(|(layer, trees)| covering(path, trees).map(|t| rule(layer, t)).collect::<Vec<_>>())
        .collect()
}
