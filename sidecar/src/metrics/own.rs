//! The server's own process, under the names that Prometheus clients agree on. Read by hand: the crate's collector
//! brings a second rustix along.

use std::fs;

use prometheus::{Counter, Gauge, Opts, Registry};

/// The handles.
#[derive(Debug)]
pub(super) struct Own {
    cpu: Counter,
    resident: Gauge,
    virtual_memory: Gauge,
    open_fds: Gauge,
    max_fds: Gauge,
    threads: Gauge,
    start: Gauge,
}

/// Fields of /proc/self/stat, counted from the one behind the name.
mod field {
    pub(super) const UTIME: usize = 11;
    pub(super) const STIME: usize = 12;
    pub(super) const THREADS: usize = 17;
    pub(super) const START: usize = 19;
    pub(super) const VSIZE: usize = 20;
    pub(super) const RSS: usize = 21;
}

impl Own {
    pub(super) fn new(registry: &Registry) -> prometheus::Result<Own> {
        let gauge = |name: &str, help: &str| {
            let gauge = Gauge::with_opts(Opts::new(name, help))?;
            registry.register(Box::new(gauge.clone()))?;
            Ok::<_, prometheus::Error>(gauge)
        };
        let cpu = Counter::new("process_cpu_seconds_total", "CPU time of the server")?;
        registry.register(Box::new(cpu.clone()))?;
        Ok(Own {
            cpu,
            resident: gauge("process_resident_memory_bytes", "Resident memory of the server")?,
            virtual_memory: gauge("process_virtual_memory_bytes", "Virtual memory of the server")?,
            open_fds: gauge("process_open_fds", "Open descriptors of the server")?,
            max_fds: gauge("process_max_fds", "How many descriptors the server may have open")?,
            threads: gauge("process_threads", "Threads of the server")?,
            start: gauge("process_start_time_seconds", "When the server started, seconds since 1970")?,
        })
    }

    /// What cannot be read stays as it was.
    pub(super) fn sample(&self) {
        if let Some(fields) = stat() {
            #[expect(clippy::cast_precision_loss, reason = "ticks since boot are far below 2^53")]
            let ticks = rustix::param::clock_ticks_per_second() as f64;
            #[expect(clippy::cast_precision_loss, reason = "a page is small")]
            let page = rustix::param::page_size() as f64;
            let at = |field: usize| fields.get(field).copied().unwrap_or_default();
            let cpu = (at(field::UTIME) + at(field::STIME)) / ticks;
            self.cpu.inc_by((cpu - self.cpu.get()).max(0.0));
            self.threads.set(at(field::THREADS));
            self.virtual_memory.set(at(field::VSIZE));
            self.resident.set(at(field::RSS) * page);
            if let Some(boot) = boot_time() {
                self.start.set(boot + at(field::START) / ticks);
            }
        }
        if let Ok(entries) = fs::read_dir("/proc/self/fd") {
            // The listing holds one itself.
            #[expect(clippy::cast_precision_loss, reason = "descriptors are few")]
            self.open_fds.set(entries.count().saturating_sub(1) as f64);
        }
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        #[expect(clippy::cast_precision_loss, reason = "descriptors are few")]
        self.max_fds.set(limit.current.map_or(f64::INFINITY, |limit| limit as f64));
    }
}

fn stat() -> Option<Vec<f64>> {
    let text = fs::read_to_string("/proc/self/stat").ok()?;
    // The name is in parentheses, and may hold some itself.
    let (_, rest) = text.rsplit_once(')')?;
    Some(rest.split_whitespace().map(|field| field.parse().unwrap_or_default()).collect())
}

fn boot_time() -> Option<f64> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    text.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok())
}
