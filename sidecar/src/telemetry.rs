//! Logs, to stderr and nowhere else: stdout belongs to the listeners' URLs.

use std::io::{self, IsTerminal as _};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::util::TryInitError;

use crate::config::{Log, LogFormat};

/// Why logging cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The filter cannot be read.
    #[error("logFilter = {0:?}: {1}")]
    Filter(String, #[source] tracing_subscriber::filter::ParseError),
    /// Somebody has set it up before.
    #[error(transparent)]
    Init(#[from] TryInitError),
}

/// Sets up logging for the whole process.
///
/// # Errors
/// A filter that cannot be read, or logging that is set up already.
pub fn init(log: &Log) -> Result<(), LogError> {
    let filter = EnvFilter::try_new(&log.filter).map_err(|e| LogError::Filter(log.filter.clone(), e))?;
    let terminal = io::stderr().is_terminal();
    let json = match log.format {
        LogFormat::Auto => !terminal,
        LogFormat::Text => false,
        LogFormat::Json => true,
    };
    let builder =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(terminal);
    if json {
        builder.json().flatten_event(true).finish().try_init()?
    } else {
        builder.finish().try_init()?
    }
    Ok(())
}
