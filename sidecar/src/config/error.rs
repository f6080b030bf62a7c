//! Why a config is refused. Each message names the key and the remedy.

use std::io;
use std::path::PathBuf;

use super::source::Source;

/// Why a config is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The config file cannot be read.
    #[error("config file {path:?}: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the OS said.
        source: io::Error,
    },
    /// The config file is no TOML.
    #[error("config file {path:?} is not valid TOML: {message}")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Where and what.
        message: String,
    },
    /// A name that is no key.
    #[error("unknown key {name} in {place}; the nearest valid one is {nearest}")]
    UnknownKey {
        /// The name.
        name: String,
        /// The file, or the environment.
        place: String,
        /// What may have been meant.
        nearest: String,
    },
    /// A value that cannot be used.
    #[error("{key} = {value:?} (from {from}): expected {expected}")]
    BadValue {
        /// The key.
        key: &'static str,
        /// The value as it came.
        value: String,
        /// Where it came from.
        from: Source,
        /// What was expected.
        expected: String,
    },
    /// A key that is no row of the table of keys, such as one of a profile's, and cannot be used as it is.
    #[error("{key}: {reason}")]
    Invalid {
        /// The key, or the variable.
        key: String,
        /// Its value and what was expected, or why it cannot be used.
        reason: String,
    },
    /// A value that is well formed and must not be used.
    #[error("{key}: {reason}")]
    Refused {
        /// The key.
        key: &'static str,
        /// Why, and what to do.
        reason: String,
    },
}
