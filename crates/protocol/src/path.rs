//! Paths on the wire: an absolute path, or a `file://` URI. Answers use the spelling of the request.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What a `file://` URI path may hold as it is: RFC 3986 `unreserved` and `/`.
const KEEP: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// How a path is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Spelling {
    /// `/a/b c`
    #[default]
    Plain,
    /// `file:///a/b%20c`
    Uri,
}

impl Spelling {
    /// Writes `path` this way. Lossless in the URI form; a plain path that is not UTF-8 is written lossily.
    pub fn write(self, path: &Path) -> String {
        match self {
            Spelling::Plain => path.to_string_lossy().into_owned(),
            Spelling::Uri => format!("file://{}", percent_encode(path.as_os_str().as_bytes(), KEEP)),
        }
    }
}

/// An absolute path as a client wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WirePath {
    path: PathBuf,
    spelling: Spelling,
}

/// Why a string is no path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// Neither absolute nor a URI.
    #[error("path must be absolute or a file:// URI: {0:?}")]
    Relative(String),
    /// A URI with a host other than localhost.
    #[error("file:// URI must have no host or localhost: {0:?}")]
    Host(String),
    /// A `?` or `#` that is not percent-encoded.
    #[error("file:// URI must not have a query or fragment (percent-encode ? and #): {0:?}")]
    Query(String),
    /// A `%` without two hex digits.
    #[error("file:// URI has a bad percent-encoding: {0:?}")]
    Percent(String),
    /// A NUL byte.
    #[error("path must not hold a NUL byte: {0:?}")]
    Nul(String),
}

impl WirePath {
    /// Parses either spelling.
    ///
    /// # Errors
    /// [`PathError`] names what is wrong with the string.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let (path, spelling) = match text.strip_prefix("file://") {
            Some(rest) => (decode_uri(text, rest)?, Spelling::Uri),
            None => (PathBuf::from(text), Spelling::Plain),
        };
        if path.as_os_str().as_bytes().contains(&0) {
            return Err(PathError::Nul(text.to_owned()));
        }
        if !path.is_absolute() {
            return Err(PathError::Relative(text.to_owned()));
        }
        Ok(Self { path, spelling })
    }

    /// A path to be sent. It must be absolute.
    pub fn new(path: impl Into<PathBuf>, spelling: Spelling) -> Self {
        Self { path: path.into(), spelling }
    }

    /// The path.
    pub fn as_path(&self) -> &Path {
        &self.path
    }

    /// How the client wrote it.
    pub fn spelling(&self) -> Spelling {
        self.spelling
    }
}

impl fmt::Display for WirePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.spelling.write(&self.path))
    }
}

impl AsRef<Path> for WirePath {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}

impl Serialize for WirePath {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for WirePath {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        WirePath::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for WirePath {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Path".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "pattern": "^(/|file://)",
            "description": "An absolute path, or a file:// URI."
        })
    }
}

fn decode_uri(text: &str, rest: &str) -> Result<PathBuf, PathError> {
    let slash = rest.find('/').ok_or_else(|| PathError::Relative(text.to_owned()))?;
    let (host, path) = rest.split_at(slash);
    if !host.is_empty() && !host.eq_ignore_ascii_case("localhost") {
        return Err(PathError::Host(text.to_owned()));
    }
    if path.contains(['?', '#']) {
        return Err(PathError::Query(text.to_owned()));
    }
    let bytes = path.as_bytes();
    let escapes_are_whole = bytes
        .iter()
        .enumerate()
        .filter(|(_, b)| **b == b'%')
        .all(|(i, _)| bytes.get(i + 1..i + 3).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit)));
    if !escapes_are_whole {
        return Err(PathError::Percent(text.to_owned()));
    }
    Ok(PathBuf::from(OsString::from_vec(percent_decode_str(path).collect())))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn either_spelling() {
        for (text, path) in [
            ("/a b", "/a b"),
            ("file:///a%20b", "/a b"),
            ("file://localhost/a", "/a"),
            ("file:///a b+c", "/a b+c"),
            ("/a%20b", "/a%20b"),
            ("file:///", "/"),
        ] {
            assert_eq!(WirePath::parse(text).unwrap().as_path(), Path::new(path), "{text}");
        }
    }

    #[test]
    fn what_is_no_path() {
        for text in [
            "",
            "a",
            "./a",
            "file:a",
            "file://",
            "file://host/a",
            "http://x/a",
            "/a\0",
            "file:///%00",
            "file:///%4",
            "file:///%zz",
            "file:///a?b",
            "file:///a#b",
        ] {
            assert!(WirePath::parse(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_uri_is_lossless(bytes in proptest::collection::vec(1u8..=255, 0..40)) {
            let mut full = b"/".to_vec();
            full.extend(bytes);
            let path = PathBuf::from(OsString::from_vec(full));
            let text = Spelling::Uri.write(&path);
            let back = WirePath::parse(&text).unwrap();
            prop_assert_eq!(back.as_path(), path.as_path());
            prop_assert_eq!(back.to_string(), text);
        }

        #[test]
        fn parsing_never_panics(text in ".*") {
            let _ = WirePath::parse(&text);
        }
    }
}
