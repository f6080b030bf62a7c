//! The memory of the container, as its control group has it: version 2, or version 1.

use std::fs;
use std::path::{Path, PathBuf};

/// Version 1 says "no limit" by a number near the largest there is.
const NO_LIMIT: u64 = 1 << 60;

/// The group's directory, and the names of its files.
#[derive(Debug)]
pub(super) struct Memory {
    dir: PathBuf,
    usage: &'static str,
    limit: &'static str,
    /// Holds a line `oom_kill N`.
    events: &'static str,
}

impl Memory {
    /// The group that this process is in; within a namespace of its own, the root that it sees.
    pub(super) fn find(mount: &Path) -> Option<Memory> {
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Memory::find_in(&groups, mount)
    }

    fn find_in(groups: &str, mount: &Path) -> Option<Memory> {
        // `hierarchy:controllers:path`
        let path = |wanted: &dyn Fn(&str) -> bool| {
            groups.lines().find_map(|line| {
                let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
                wanted(controllers).then(|| path.trim_start_matches('/').to_owned())
            })
        };
        let v2 = path(&str::is_empty).map(|path| mount.join(path));
        let v1 = path(&|controllers| controllers.split(',').any(|name| name == "memory"));
        let v1 = v1.map(|path| mount.join("memory").join(path));
        let v2 = v2.into_iter().chain([mount.to_owned()]).map(|dir| Memory {
            dir,
            usage: "memory.current",
            limit: "memory.max",
            events: "memory.events",
        });
        let v1 = v1.into_iter().chain([mount.join("memory")]).map(|dir| Memory {
            dir,
            usage: "memory.usage_in_bytes",
            limit: "memory.limit_in_bytes",
            events: "memory.oom_control",
        });
        v2.chain(v1).find(|memory| memory.usage().is_some())
    }

    pub(super) fn usage(&self) -> Option<u64> {
        self.read(self.usage)?.trim().parse().ok()
    }

    /// `None`: no limit.
    pub(super) fn limit(&self) -> Option<u64> {
        self.read(self.limit)?.trim().parse().ok().filter(|limit| *limit < NO_LIMIT)
    }

    pub(super) fn oom_kills(&self) -> Option<u64> {
        let events = self.read(self.events)?;
        events.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
    }

    fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.dir.join(name)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(dir: &Path, files: &[(&str, &str)]) {
        fs::create_dir_all(dir).expect("made");
        for (name, text) in files {
            fs::write(dir.join(name), text).expect("written");
        }
    }

    #[test]
    fn version_2_by_path_or_at_the_root_of_the_namespace() {
        let mount = tempfile::tempdir().expect("a directory");
        let files =
            [("memory.current", "4096\n"), ("memory.max", "max\n"), ("memory.events", "oom 3\noom_kill 2\n")];
        assert!(Memory::find_in("0::/\n", mount.path()).is_none());
        write(mount.path(), &files);
        let memory = Memory::find_in("0::/not/visible\n", mount.path()).expect("found");
        assert_eq!((memory.usage(), memory.limit(), memory.oom_kills()), (Some(4096), None, Some(2)));
        write(&mount.path().join("a/b"), &[("memory.current", "1"), ("memory.max", "8192\n")]);
        let memory = Memory::find_in("0::/a/b\n", mount.path()).expect("found");
        assert_eq!((memory.usage(), memory.limit(), memory.oom_kills()), (Some(1), Some(8192), None));
    }

    #[test]
    fn version_1() {
        let mount = tempfile::tempdir().expect("a directory");
        write(
            &mount.path().join("memory"),
            &[
                ("memory.usage_in_bytes", "5"),
                ("memory.limit_in_bytes", "9223372036854771712"),
                ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 7\n"),
            ],
        );
        let groups = "5:cpu,cpuacct:/x\n4:memory:/x\n0::/\n";
        let memory = Memory::find_in(groups, mount.path()).expect("found");
        assert_eq!((memory.usage(), memory.limit(), memory.oom_kills()), (Some(5), None, Some(7)));
    }
}
