//! What a server has of everything that can leak.

use std::fs;
use std::path::PathBuf;

use crate::Server;

/// Threads that may be more at the end: the runtime's pool grows and shrinks by use.
const THREADS: u64 = 2;

/// Resident memory that may be more at the end, KiB: an allocator does not give back every page.
const MEMORY_KIB: u64 = 16 << 10;

/// One look.
#[derive(Debug, Clone, Copy)]
pub struct Figures {
    /// Open descriptors.
    pub descriptors: u64,
    /// Threads.
    pub threads: u64,
    /// Resident memory, KiB.
    pub resident_kib: u64,
    /// Children that nobody has waited for.
    pub zombies: u64,
    /// Children, shims that is.
    pub children: u64,
    /// Temporary directories of launches, and files in the workspace.
    pub files: u64,
}

impl Figures {
    /// Of a running server.
    pub fn of(server: &Server) -> Self {
        let pid = server.pid();
        let (children, zombies) = children(pid);
        let own = PathBuf::from(format!("/proc/{pid}"));
        Self {
            descriptors: entries(own.join("fd")),
            threads: entries(own.join("task")),
            resident_kib: status(pid, "VmRSS:"),
            zombies,
            children,
            files: entries(server.workspace()) + temporary(pid),
        }
    }

    /// The larger of each.
    #[must_use]
    pub fn most(self, other: Self) -> Self {
        Self {
            descriptors: self.descriptors.max(other.descriptors),
            threads: self.threads.max(other.threads),
            resident_kib: self.resident_kib.max(other.resident_kib),
            zombies: self.zombies.max(other.zombies),
            children: self.children.max(other.children),
            files: self.files.max(other.files),
        }
    }

    /// Whether it has no more of anything than at another time, but for what is tolerated.
    pub fn is_like(self, before: Self) -> bool {
        self.rows().iter().zip(before.rows()).all(|(now, before)| now.1 <= before.1 + now.2)
    }

    /// Name, value, and how much more is tolerated.
    fn rows(self) -> [(&'static str, u64, u64); 6] {
        [
            ("descriptors", self.descriptors, 0),
            ("threads", self.threads, THREADS),
            ("resident KiB", self.resident_kib, MEMORY_KIB),
            ("zombies", self.zombies, 0),
            ("children", self.children, 0),
            ("temporary files", self.files, 0),
        ]
    }
}

/// A table, and whether the end is like the beginning.
pub fn compare(begin: Figures, peak: Figures, end: Figures) -> (String, bool) {
    let mut table = format!("{:<16} {:>9} {:>9} {:>9} {:>10}\n", "", "begin", "peak", "end", "tolerated");
    for ((row, peak), end) in begin.rows().iter().zip(peak.rows()).zip(end.rows()) {
        let mark = if end.1 <= row.1 + row.2 { "" } else { "  MORE" };
        table += &format!("{:<16} {:>9} {:>9} {:>9} {:>+10}{mark}\n", row.0, row.1, peak.1, end.1, row.2);
    }
    (table, end.is_like(begin))
}

/// Proportional memory of a process, KiB; smaps_rollup in proc(5).
pub fn proportional_kib(pid: u32) -> u64 {
    field(&fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default(), "Pss:")
}

/// The most resident memory that a process has had at any time, KiB.
pub fn peak_kib(pid: u32) -> u64 {
    status(pid, "VmHWM:")
}

/// The memory of a process that is no file's, KiB.
pub fn anonymous_kib(pid: u32) -> u64 {
    status(pid, "RssAnon:")
}

fn status(pid: u32, name: &str) -> u64 {
    field(&fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default(), name)
}

fn field(text: &str, name: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    value.trim().trim_end_matches(" kB").parse().unwrap_or(0)
}

fn entries(dir: PathBuf) -> u64 {
    fs::read_dir(dir).map_or(0, |entries| entries.count() as u64)
}

/// How many children, and how many of them zombies.
fn children(parent: u32) -> (u64, u64) {
    let stats = fs::read_dir("/proc").unwrap().flatten();
    let states = stats.filter_map(|entry| {
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let mut fields = stat.rsplit_once(") ")?.1.split(' ');
        let state = fields.next()?.to_owned();
        (fields.next()? == parent.to_string()).then_some(state)
    });
    states.fold((0, 0), |(all, zombies), state| (all + 1, zombies + u64::from(state == "Z")))
}

/// What lies in the server's directory for launches' temporary files, which it holds open.
fn temporary(pid: u32) -> u64 {
    let held = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let places = held.filter_map(|fd| fs::read_link(fd.path()).ok());
    let bases = places.filter(|place| {
        place
            .file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| name.starts_with("sandbox-sidecar-"))
    });
    bases.map(entries).sum()
}
