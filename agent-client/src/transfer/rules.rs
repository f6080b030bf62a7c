//! What a transfer leaves out: `.git`, and what the `.gitignore` files of its source say, as git reads them.
//!
//! `.git` is left out since hooks and config in it are run by git on the other side.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// The name of the files that hold rules.
pub(super) const FILE: &str = ".gitignore";

/// The rules so far; those of a directory are added before its entries are looked at.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rules {
    is_on: bool,
    /// No more files are read: this is the destination.
    is_settled: bool,
    by_directory: HashMap<PathBuf, Gitignore>,
    /// Of directories above the root, the innermost first, with the way from there to the root.
    above: Vec<(Gitignore, PathBuf)>,
}

impl Rules {
    pub(crate) fn new(is_on: bool) -> Self {
        Self { is_on, ..Self::default() }
    }

    /// The same rules, to be applied to the destination.
    pub(super) fn settled(&self) -> Self {
        Self { is_settled: true, ..self.clone() }
    }

    /// Whether a directory's file is to be read.
    pub(super) fn wants_files(&self) -> bool {
        self.is_on && !self.is_settled
    }

    /// Adds the file of a directory below the root. Lines that are no patterns are told and count as none.
    pub(super) fn add(&mut self, directory: &Path, text: &[u8]) -> Vec<String> {
        let (rules, complaints) = parse(text);
        self.by_directory.insert(directory.to_owned(), rules);
        complaints
    }

    /// Adds the files of directories above `root`, the outermost first, as far as they have some.
    pub(super) fn above(&mut self, root: &Path, directories: &[PathBuf]) {
        for directory in directories.iter().rev().filter(|_| self.is_on) {
            if let (Ok(way), Ok(text)) = (root.strip_prefix(directory), std::fs::read(directory.join(FILE))) {
                self.above.push((parse(&text).0, way.to_owned()));
            }
        }
    }

    /// Whether a path below the root is left out. Those above it are asked first, by whoever lists them.
    pub(super) fn exclude(&self, path: &Path, is_directory: bool) -> bool {
        if !self.is_on {
            return false;
        }
        if path.file_name().is_some_and(|name| name == ".git") {
            return true;
        }
        // The innermost file that has something to say decides.
        for directory in path.ancestors().skip(1) {
            if let Some(rules) = self.by_directory.get(directory)
                && let Ok(below) = path.strip_prefix(directory)
                && let Some(decision) = decide(rules, below, is_directory)
            {
                return decision;
            }
        }
        self.above
            .iter()
            .find_map(|(rules, way)| decide(rules, &way.join(path), is_directory))
            .unwrap_or(false)
    }
}

fn decide(rules: &Gitignore, path: &Path, is_directory: bool) -> Option<bool> {
    match rules.matched(path, is_directory) {
        Match::None => None,
        Match::Ignore(_) => Some(true),
        Match::Whitelist(_) => Some(false),
    }
}

fn parse(text: &[u8]) -> (Gitignore, Vec<String>) {
    let mut builder = GitignoreBuilder::new("");
    let mut complaints = Vec::new();
    for line in String::from_utf8_lossy(text).lines() {
        if let Err(error) = builder.add_line(None, line) {
            complaints.push(error.to_string());
        }
    }
    match builder.build() {
        Ok(rules) => (rules, complaints),
        Err(error) => {
            complaints.push(error.to_string());
            (Gitignore::empty(), complaints)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_git_reads_them() {
        let mut rules = Rules::new(true);
        assert!(rules.add(Path::new(""), b"target/\n*.log\n!keep.log\n/only-here\n# a comment\n").is_empty());
        assert!(rules.add(Path::new("sub"), b"!*.log\nown\n").is_empty());
        for (path, is_directory, excluded) in [
            ("target", true, true),
            ("target", false, false),
            ("a/target", true, true),
            ("x.log", false, true),
            ("keep.log", false, false),
            ("sub/x.log", false, false),
            ("sub/own", false, true),
            ("own", false, false),
            ("only-here", false, true),
            ("sub/only-here", false, false),
            (".git", true, true),
            ("sub/.git", false, true),
            (".gitignore", false, false),
            ("src/main.rs", false, false),
        ] {
            assert_eq!(rules.exclude(Path::new(path), is_directory), excluded, "{path}");
        }
        assert!(!Rules::new(false).exclude(Path::new(".git"), true));
    }

    #[test]
    fn files_above_the_root_count() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("a/b");
        std::fs::write(dir.path().join(FILE), "/a/b/secret\n*.o\n").unwrap();
        let mut rules = Rules::new(true);
        rules.above(&root, &[dir.path().to_owned(), dir.path().join("a")]);
        assert!(rules.exclude(Path::new("secret"), false));
        assert!(rules.exclude(Path::new("c/x.o"), false));
        assert!(!rules.exclude(Path::new("c/secret"), false));
    }
}
