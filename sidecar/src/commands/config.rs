//! `config`: the effective config and where each value came from.

use std::fmt::Write as _;

use sandbox_sidecar::config::Config;
use serde_json::{Map, Value, json};

/// One line per key: the value, and its source.
pub(crate) fn text(config: &Config) -> String {
    let mut text = String::new();
    for entry in config.effective() {
        let value = entry.value.as_deref().unwrap_or("(not set)");
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{} = {value}  # {}", entry.key, entry.source);
    }
    text
}

/// An object of keys; a value that is not set is null.
pub(crate) fn to_json(config: &Config) -> Value {
    let entry = |entry: sandbox_sidecar::config::Effective| {
        (entry.key, json!({ "value": entry.value, "source": entry.source.to_string() }))
    };
    Value::Object(config.effective().map(entry).collect::<Map<_, _>>())
}
