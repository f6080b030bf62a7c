//! Call numbers as the kernel's own headers and this crate's sources have them.

use std::collections::{BTreeMap, BTreeSet};

const GENERIC: &str = "/usr/include/asm-generic/unistd.h";

fn header(path: &str) -> BTreeMap<String, i64> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{path}, of linux-libc-dev: {e}"));
    let define = |line: &str| {
        let rest = line.strip_prefix("#define __NR")?;
        // fcntl, truncate and the like have one number under two names.
        let rest = rest.strip_prefix("3264").unwrap_or(rest).strip_prefix('_')?;
        let (name, number) = rest.split_once(char::is_whitespace)?;
        Some((name.to_owned(), number.trim().parse().ok()?))
    };
    text.lines().filter_map(define).collect()
}

/// The numbers that aarch64 uses.
pub(super) fn generic() -> BTreeMap<String, i64> {
    header(GENERIC)
}

/// The numbers of the machine that this runs on, with those that are newer than its headers.
pub(super) fn of_this_machine() -> BTreeMap<String, i64> {
    let mut known = if cfg!(target_arch = "x86_64") {
        header("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
    } else {
        generic()
    };
    for (name, number) in [
        ("fchmodat2", 452),
        ("setxattrat", 463),
        ("removexattrat", 466),
        ("open_tree_attr", 467),
        ("file_setattr", 469),
    ] {
        known.insert(name.to_owned(), number);
    }
    known
}

/// The names in the lists of a source file, as the kernel spells them.
pub(super) fn names(source: &str) -> BTreeSet<String> {
    let lists = source.split_once("pub(crate) const DENIED").unwrap().1;
    let lists = lists.split_once("const _:").map_or(lists, |(lists, _)| lists);
    let words = lists.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter_map(|word| word.strip_prefix("SYS_")).map(str::to_lowercase).collect()
}

/// The names that aarch64.rs uses, and the numbers that it gives beside them.
pub(super) fn of_aarch64() -> (BTreeSet<String>, BTreeMap<String, i64>) {
    let source = include_str!("../../syscalls/aarch64.rs");
    let assertion = |line: &str| {
        let (name, number) =
            line.trim().strip_prefix("assert!(SYS_")?.strip_suffix(");")?.split_once(" == ")?;
        Some((name.to_lowercase(), number.parse().ok()?))
    };
    (names(source), source.lines().filter_map(assertion).collect())
}
