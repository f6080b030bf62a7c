//! Merges file, environment and flags over the key table. Knows which keys there are, not what they mean.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use super::error::ConfigError;
use super::keys::{self, KEYS, Key, Kind};

/// Everything that the config is made of.
#[derive(Debug, Clone, Default)]
pub struct Inputs {
    /// The config file's path and text, where there is one.
    pub file: Option<(PathBuf, String)>,
    /// The environment.
    pub env: BTreeMap<String, String>,
    /// The flags, by key.
    pub flags: Vec<(&'static str, Raw)>,
    /// What relative paths are relative to.
    pub cwd: PathBuf,
}

/// A value that has the shape that its key asks for, and is not yet validated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Raw {
    /// A string.
    Text(String),
    /// A truth value.
    Bool(bool),
    /// A number.
    Number(u64),
    /// A list of ports.
    Ports(Vec<u16>),
    /// A list.
    List(Vec<String>),
}

impl fmt::Display for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Raw::Text(text) => f.write_str(text),
            Raw::Bool(value) => value.fmt(f),
            Raw::Number(value) => value.fmt(f),
            Raw::Ports(ports) => {
                let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
                f.write_str(&ports.join(", "))
            }
            Raw::List(items) => f.write_str(&items.join(", ")),
        }
    }
}

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Nobody set it.
    Default,
    /// The config file.
    File(PathBuf),
    /// This environment variable.
    Env(String),
    /// The command line.
    Flag,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Default => f.write_str("the default"),
            Source::File(path) => path.display().fmt(f),
            Source::Env(name) => f.write_str(name),
            Source::Flag => f.write_str("the command line"),
        }
    }
}

/// The merged values. A key that nobody set has none.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    values: BTreeMap<&'static str, (Raw, Source)>,
    profiles: BTreeMap<String, BTreeMap<&'static str, Raw>>,
    file: Option<PathBuf>,
}

/// Merges: flags beat the environment, which beats the file.
///
/// # Errors
/// A key that is unknown, a value of the wrong shape, a file that is no TOML.
pub fn merge(inputs: &Inputs) -> Result<Settings, ConfigError> {
    let mut settings = Settings::default();
    if let Some((path, text)) = &inputs.file {
        let table = text
            .parse::<toml::Table>()
            .map_err(|e| ConfigError::Syntax { path: path.clone(), message: e.to_string() })?;
        settings.add_table("", table, path)?;
        settings.file = Some(path.clone());
    }
    settings.add_env(&inputs.env)?;
    for (name, raw) in &inputs.flags {
        settings.values.insert(name, (raw.clone(), Source::Flag));
    }
    Ok(settings)
}

impl Settings {
    fn add_table(&mut self, prefix: &str, table: toml::Table, path: &PathBuf) -> Result<(), ConfigError> {
        for (name, value) in table {
            let name = format!("{prefix}{name}");
            let source = Source::File(path.clone());
            match (Key::find(&name), value) {
                (Some(key), value) => {
                    let raw = from_toml(key, &value).ok_or_else(|| ConfigError::BadValue {
                        key: key.name,
                        value: value.to_string(),
                        from: source.clone(),
                        expected: key.kind.expected().to_owned(),
                    })?;
                    self.values.insert(key.name, (raw, source));
                }
                (None, toml::Value::Table(profiles)) if name == keys::PROFILES => {
                    for (name, value) in profiles {
                        let profile = profile(&name, value, &source)?;
                        self.profiles.insert(name, profile);
                    }
                }
                (None, toml::Value::Table(inner)) if is_table(&name) => {
                    self.add_table(&format!("{name}."), inner, path)?;
                }
                (None, value) => {
                    let candidate = |key: &Key| match (value.is_table(), key.name.split_once('.')) {
                        (true, table) => table.map(|(table, _)| table.to_owned()),
                        (false, _) => Some(key.name.to_owned()),
                    };
                    let nearest = keys::nearest(&name, KEYS.iter().filter_map(candidate));
                    return Err(ConfigError::UnknownKey { name, place: path.display().to_string(), nearest });
                }
            }
        }
        Ok(())
    }

    fn add_env(&mut self, env: &BTreeMap<String, String>) -> Result<(), ConfigError> {
        for (name, text) in env.iter().filter(|(name, _)| name.starts_with(keys::ENV_PREFIX)) {
            if name == keys::CONFIG_ENV || keys::is_service_link(name) {
                continue;
            }
            let Some(key) = KEYS.iter().find(|key| key.env_name() == *name) else {
                if name.strip_prefix(keys::ENV_PREFIX).is_some_and(|rest| rest.starts_with("PROFILES")) {
                    return Err(ConfigError::Invalid {
                        key: name.clone(),
                        reason: String::from("profiles are set in the config file alone, as [profiles.NAME]"),
                    });
                }
                let nearest = keys::nearest(name, KEYS.iter().map(Key::env_name));
                return Err(ConfigError::UnknownKey {
                    name: name.clone(),
                    place: String::from("the environment"),
                    nearest,
                });
            };
            let source = Source::Env(name.clone());
            let raw = from_text(key, text).ok_or_else(|| ConfigError::BadValue {
                key: key.name,
                value: text.clone(),
                from: source.clone(),
                expected: key.kind.expected().to_owned(),
            })?;
            self.values.insert(key.name, (raw, source));
        }
        Ok(())
    }

    /// The value of a key and where it came from; `None` where nobody set it.
    pub fn get(&self, name: &str) -> Option<(&Raw, &Source)> {
        self.values.get(name).map(|(raw, source)| (raw, source))
    }

    /// What the file's `[profiles.NAME]` hold, by name.
    pub(super) fn profiles(&self) -> &BTreeMap<String, BTreeMap<&'static str, Raw>> {
        &self.profiles
    }

    /// The config file.
    pub(super) fn file(&self) -> Option<PathBuf> {
        self.file.clone()
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        match self.get(name)? {
            (Raw::Text(text), _) => Some(text),
            _ => None,
        }
    }

    pub(super) fn boolean(&self, name: &str) -> Option<bool> {
        match self.get(name)? {
            (Raw::Bool(value), _) => Some(*value),
            _ => None,
        }
    }

    pub(super) fn list(&self, name: &str) -> &[String] {
        match self.get(name) {
            Some((Raw::List(items), _)) => items,
            _ => &[],
        }
    }

    /// A list of ports; `None` where nobody set it, which is not an empty one.
    pub(super) fn ports(&self, name: &str) -> Option<&[u16]> {
        match self.get(name)? {
            (Raw::Ports(ports), _) => Some(ports),
            _ => None,
        }
    }

    /// A number within `min..=max`.
    pub(super) fn number<T: TryFrom<u64>>(
        &self,
        name: &'static str,
        min: u64,
        max: u64,
    ) -> Result<Option<T>, ConfigError> {
        let Some((Raw::Number(number), _)) = self.get(name) else { return Ok(None) };
        let value = (min..=max).contains(number).then(|| T::try_from(*number).ok()).flatten();
        match value {
            Some(value) => Ok(Some(value)),
            None => Err(self.bad(name, &number.to_string(), format!("a number from {min} to {max}"))),
        }
    }

    /// One of a few words; the first is the default.
    pub(super) fn choice<T: Copy>(&self, name: &'static str, words: &[(&str, T)]) -> Result<T, ConfigError> {
        let text = self.text(name).unwrap_or(words[0].0);
        words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value).ok_or_else(|| {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            self.bad(name, text, known.join(" or "))
        })
    }

    pub(super) fn bad(&self, key: &'static str, value: &str, expected: impl Into<String>) -> ConfigError {
        let from = self.get(key).map_or(Source::Default, |(_, source)| source.clone());
        ConfigError::BadValue { key, value: value.to_owned(), from, expected: expected.into() }
    }
}

fn is_table(name: &str) -> bool {
    KEYS.iter().any(|key| key.name.strip_prefix(name).is_some_and(|rest| rest.starts_with('.')))
}

fn profile(
    name: &str,
    value: toml::Value,
    source: &Source,
) -> Result<BTreeMap<&'static str, Raw>, ConfigError> {
    let toml::Value::Table(table) = value else {
        return Err(ConfigError::Invalid {
            key: format!("{}.{name}", keys::PROFILES),
            reason: format!("{value} (from {source}): expected a table of a profile's keys"),
        });
    };
    let mut values = BTreeMap::new();
    for (inner, value) in table {
        let full = format!("{}.{name}.{inner}", keys::PROFILES);
        let Some(key) = keys::PROFILE_KEYS.iter().find(|key| key.name == inner) else {
            let nearest = keys::nearest(&inner, keys::PROFILE_KEYS.iter().map(|key| key.name.to_owned()));
            return Err(ConfigError::UnknownKey { name: full, place: source.to_string(), nearest });
        };
        let raw = from_toml(key, &value).ok_or_else(|| ConfigError::Invalid {
            key: full,
            reason: format!("{value} (from {source}): expected {}", key.kind.expected()),
        })?;
        values.insert(key.name, raw);
    }
    Ok(values)
}

fn from_toml(key: &Key, value: &toml::Value) -> Option<Raw> {
    match (key.kind, value) {
        (Kind::Text, toml::Value::String(text)) => Some(Raw::Text(text.clone())),
        (Kind::Bool, toml::Value::Boolean(value)) => Some(Raw::Bool(*value)),
        (Kind::Number, toml::Value::Integer(number)) => u64::try_from(*number).ok().map(Raw::Number),
        (Kind::Ports, toml::Value::Array(items)) => items
            .iter()
            .map(|item| item.as_integer().and_then(|port| u16::try_from(port).ok()))
            .collect::<Option<Vec<_>>>()
            .map(Raw::Ports),
        (Kind::List(_), toml::Value::Array(items)) => items
            .iter()
            .map(|item| item.as_str().map(str::to_owned))
            .collect::<Option<Vec<_>>>()
            .map(Raw::List),
        _ => None,
    }
}

fn from_text(key: &Key, text: &str) -> Option<Raw> {
    match key.kind {
        Kind::Text => Some(Raw::Text(text.to_owned())),
        Kind::Bool => text.parse().ok().map(Raw::Bool),
        Kind::Number => text.parse().ok().map(Raw::Number),
        Kind::Ports => items(text, ',').map(|item| item.parse().ok()).collect::<Option<_>>().map(Raw::Ports),
        Kind::List(separator) => Some(Raw::List(items(text, separator).map(str::to_owned).collect())),
    }
}

fn items(text: &str, separator: char) -> impl Iterator<Item = &str> {
    text.split(separator).map(str::trim).filter(|item| !item.is_empty())
}
