//! The machine that the figures are of.

use std::fs;
use std::thread;

/// Its processor, cores, kernel and load.
pub(crate) fn describe() -> anyhow::Result<String> {
    let cpus = fs::read_to_string("/proc/cpuinfo")?;
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let load = fs::read_to_string("/proc/loadavg")?;
    Ok(format!(
        "{}, {} cores, Linux {}, load {}",
        model.map_or(std::env::consts::ARCH, |(_, model)| model),
        thread::available_parallelism()?,
        kernel.trim(),
        load.split(' ').next().unwrap_or_default(),
    ))
}
