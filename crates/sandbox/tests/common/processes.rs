//! Which processes there are.

use std::path::Path;

/// The processes whose command line holds `mark`, this one aside.
pub(crate) fn alive(mark: &str) -> Vec<i32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if pid != std::process::id().cast_signed() && command_line(&entry.path()).contains(mark) {
            found.push(pid);
        }
    }
    found
}

/// What a process was called with. It is empty for a moment of every `execve`, and a launch is told of just then: the
/// descriptors that close at it are closed, the new arguments are not there yet. Such a moment is waited out.
fn command_line(process: &Path) -> String {
    loop {
        let line = std::fs::read(process.join("cmdline")).unwrap_or_default();
        if !line.is_empty() || !runs_a_program(process) {
            return String::from_utf8_lossy(&line).into_owned();
        }
        std::thread::yield_now();
    }
}

/// Whether it is neither a zombie, nor about to be one, nor a thread of the kernel.
fn runs_a_program(process: &Path) -> bool {
    // PF_EXITING and PF_KTHREAD of the kernel's include/linux/sched.h.
    const NO_PROGRAM: u64 = 0x4 | 0x0020_0000;
    let stat = std::fs::read_to_string(process.join("stat")).unwrap_or_default();
    // proc_pid_stat(5): the state comes after the name, the flags six fields later.
    let Some((_, fields)) = stat.rsplit_once(") ") else { return false };
    let mut fields = fields.split(' ');
    let state = fields.next();
    let flags = fields.nth(5).and_then(|flags| flags.parse::<u64>().ok());
    !matches!(state, Some("Z" | "X")) && flags.is_some_and(|flags| flags & NO_PROGRAM == 0)
}
