//! The audit trail's keys.

use std::path::{Path, PathBuf};

use regex::Regex;

use super::error::ConfigError;
use super::source::Settings;

/// How the audit trail is kept.
#[derive(Debug, Clone)]
pub struct AuditConfig {
    /// Where it goes.
    pub sink: AuditSink,
    /// What becomes of a launch whose record cannot be written.
    pub on_failure: OnFailure,
    /// What is masked in arguments.
    pub redact: Vec<Regex>,
    /// Whether what only reads files is recorded too.
    pub reads: bool,
    /// Size at which a file is rotated.
    pub rotate_bytes: u64,
    /// Rotated files that are kept.
    pub keep_files: usize,
}

/// Where the audit trail goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuditSink {
    /// Nowhere.
    None,
    /// Among the logs.
    Stderr,
    /// To this file, rotated by size.
    File(PathBuf),
    /// To the stream socket that somebody listens on there, one line per event.
    Unix(PathBuf),
}

/// What becomes of a launch whose record cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    /// It goes on; the lost record is counted.
    Drop,
    /// It is refused.
    Refuse,
}

/// Smaller files would be renamed all the time.
const MIN_ROTATE_BYTES: u64 = 4096;
const MAX_ROTATE_BYTES: u64 = 1 << 40;
const DEFAULT_ROTATE_BYTES: u64 = 100 << 20;
const MAX_KEEP_FILES: u64 = 100;
const DEFAULT_KEEP_FILES: usize = 5;

impl AuditConfig {
    pub(super) fn from_settings(settings: &Settings, cwd: &Path) -> Result<AuditConfig, ConfigError> {
        let pattern = |text: &String| {
            Regex::new(text)
                .map_err(|e| settings.bad("audit.redact", text, format!("a regular expression ({e})")))
        };
        Ok(AuditConfig {
            sink: sink(settings, cwd)?,
            on_failure: settings
                .choice("audit.onFailure", &[("drop", OnFailure::Drop), ("refuse", OnFailure::Refuse)])?,
            redact: settings.list("audit.redact").iter().map(pattern).collect::<Result<_, _>>()?,
            reads: settings.boolean("audit.reads").unwrap_or(false),
            rotate_bytes: settings
                .number("audit.rotateBytes", MIN_ROTATE_BYTES, MAX_ROTATE_BYTES)?
                .unwrap_or(DEFAULT_ROTATE_BYTES),
            keep_files: settings.number("audit.keepFiles", 0, MAX_KEEP_FILES)?.unwrap_or(DEFAULT_KEEP_FILES),
        })
    }

    /// Every path that the trail may be at; they need not exist.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        match &self.sink {
            AuditSink::None | AuditSink::Stderr => Vec::new(),
            AuditSink::Unix(path) => vec![path.clone()],
            AuditSink::File(path) => {
                let rotated = (1..=self.keep_files).map(|number| rotated(path, number));
                std::iter::once(path.clone()).chain(rotated).collect()
            }
        }
    }
}

/// The name of the file that was rotated `number` times.
pub(crate) fn rotated(path: &Path, number: usize) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    PathBuf::from(name)
}

fn sink(settings: &Settings, cwd: &Path) -> Result<AuditSink, ConfigError> {
    let text = settings.text("audit.sink").unwrap_or("stderr");
    match text.split_once(':') {
        None if text == "stderr" => Ok(AuditSink::Stderr),
        None if text == "none" => Ok(AuditSink::None),
        Some(("file", path)) if !path.is_empty() => Ok(AuditSink::File(cwd.join(path))),
        Some(("unix", path)) if !path.is_empty() => Ok(AuditSink::Unix(cwd.join(path))),
        _ => Err(settings.bad("audit.sink", text, "stderr, file:PATH, unix:PATH or none")),
    }
}
