//! What the kernel tells about memory: of the container by its cgroup, of a process by /proc.

use std::fs;
use std::path::{Path, PathBuf};

/// A v1 limit that is none: the largest number of whole pages.
const UNLIMITED: u64 = 1 << 60;

/// A cgroup that has a memory limit, or may get one.
#[derive(Debug)]
pub(super) struct Cgroup {
    used: PathBuf,
    limit: PathBuf,
    stat: PathBuf,
    /// The counters in `stat` of what the kernel takes back by itself.
    file_pages: [&'static str; 2],
}

/// How much memory is used, and how much may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) used: u64,
    pub(super) limit: u64,
}

impl Cgroup {
    /// The one that is mounted there, of either version; `None` where it has no memory controller.
    pub(super) fn find(mount: &Path) -> Option<Cgroup> {
        let v2 = Cgroup {
            used: mount.join("memory.current"),
            limit: mount.join("memory.max"),
            stat: mount.join("memory.stat"),
            file_pages: ["active_file", "inactive_file"],
        };
        let v1 = mount.join("memory");
        let v1 = Cgroup {
            used: v1.join("memory.usage_in_bytes"),
            limit: v1.join("memory.limit_in_bytes"),
            stat: v1.join("memory.stat"),
            file_pages: ["total_active_file", "total_inactive_file"],
        };
        [v2, v1].into_iter().find(|cgroup| cgroup.limit.exists())
    }

    /// `None` while there is no limit. The page cache does not count: it fills whatever is left, and is given back on
    /// demand.
    pub(super) fn read(&self) -> Option<Usage> {
        let limit = number(&self.limit).filter(|limit| *limit < UNLIMITED)?;
        let stat = fs::read_to_string(&self.stat).unwrap_or_default();
        let cache: u64 = self.file_pages.iter().filter_map(|name| counter(&stat, name)).sum();
        Some(Usage { used: number(&self.used)?.saturating_sub(cache), limit })
    }
}

/// `max` is no number, and no limit.
fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn counter(stat: &str, name: &str) -> Option<u64> {
    let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok();
    stat.lines().find_map(value)
}

/// A process's share of memory, bytes (PSS): a shared page counts by the number of its users. Where that is not told,
/// as for a process that has made itself undumpable, all that is resident.
pub(super) fn share(pid: i32) -> Option<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"));
    let pss = rollup.ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    });
    pss.map(|kib| kib * 1024).or_else(|| {
        let statm = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
        let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
        Some(pages * rustix::param::page_size() as u64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(dir: &Path, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = dir.join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, text).expect("written");
        }
    }

    #[test]
    fn both_versions() {
        let dir = tempfile::tempdir().expect("a directory");
        assert!(Cgroup::find(dir.path()).is_none());
        files(
            dir.path(),
            &[
                ("memory/memory.usage_in_bytes", "900\n"),
                ("memory/memory.limit_in_bytes", "1000\n"),
                ("memory/memory.stat", "inactive_file 7\ntotal_inactive_file 100\ntotal_active_file 50\n"),
            ],
        );
        let v1 = Cgroup::find(dir.path()).expect("v1");
        assert_eq!(v1.read(), Some(Usage { used: 750, limit: 1000 }));
        files(dir.path(), &[("memory/memory.limit_in_bytes", "9223372036854771712\n")]);
        assert_eq!(v1.read(), None);
        files(dir.path(), &[("memory.current", "900\n"), ("memory.max", "max\n")]);
        let v2 = Cgroup::find(dir.path()).expect("v2");
        assert_eq!(v2.read(), None);
        files(dir.path(), &[("memory.max", "1000\n")]);
        assert_eq!(v2.read(), Some(Usage { used: 900, limit: 1000 }));
    }

    #[test]
    fn a_share_is_told_of_any_process_of_ours() {
        let own = i32::try_from(std::process::id()).expect("a pid");
        assert!(share(own).is_some_and(|bytes| bytes > 100_000));
        assert_eq!(share(i32::MAX), None);
    }
}
