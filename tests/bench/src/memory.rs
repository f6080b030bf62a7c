//! Memory of a process, as the kernel counts it. Another's can be read by root alone.

use std::fs;

use anyhow::Context as _;

/// Proportional set size, bytes.
pub(crate) fn pss(pid: u32) -> anyhow::Result<f64> {
    field(&format!("/proc/{pid}/smaps_rollup"), "Pss:")
}

/// Watches the peak of the resident set from here on.
#[derive(Debug)]
pub(crate) struct Peak {
    pid: u32,
    before: f64,
}

impl Peak {
    pub(crate) fn watch(pid: u32) -> anyhow::Result<Self> {
        // 5: the peak is what it is now.
        let file = format!("/proc/{pid}/clear_refs");
        fs::write(&file, "5").with_context(|| format!("{file} (as root)"))?;
        Ok(Self { pid, before: field(&format!("/proc/{pid}/status"), "VmRSS:")? })
    }

    /// By how much it has grown since, bytes; one page at least, to be divided by.
    pub(crate) fn growth(&self) -> anyhow::Result<f64> {
        let peak = field(&format!("/proc/{}/status", self.pid), "VmHWM:")?;
        Ok((peak - self.before).max(4096.0))
    }
}

fn field(file: &str, name: &str) -> anyhow::Result<f64> {
    let text = fs::read_to_string(file).with_context(|| format!("{file} (as root)"))?;
    let kib = text.lines().find_map(|line| line.strip_prefix(name)).context(name.to_owned())?;
    Ok(kib.trim().trim_end_matches(" kB").parse::<f64>()? * 1024.0)
}
