//! The paths of the command line: here, or with a `:` in front on the sidecar's side.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use agent_client::Environment;
use anyhow::Context as _;

/// Where an argument points.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    Local(PathBuf),
    Remote(PathBuf),
}

impl Place {
    /// `:` in front means the sidecar's side; `./:x` is a local file of such a name.
    pub(super) fn parse(argument: &OsStr) -> Place {
        match argument.as_bytes().strip_prefix(b":") {
            Some(rest) => Place::Remote(PathBuf::from(OsStr::from_bytes(rest))),
            None => Place::Local(PathBuf::from(argument)),
        }
    }

    /// For commands that know no other side, which need no `:`.
    pub(super) fn remote(argument: &OsStr) -> PathBuf {
        match Place::parse(argument) {
            Place::Local(path) | Place::Remote(path) => path,
        }
    }
}

/// An absolute path on the sidecar's side. A relative one starts from the counterpart of the current directory.
pub(super) fn absolute(environment: &Environment, path: &Path) -> anyhow::Result<PathBuf> {
    if path.is_absolute() {
        return Ok(path.to_owned());
    }
    Ok(environment.mapping().to_workspace(&here()?.join(path))?)
}

/// The current directory.
pub(super) fn here() -> anyhow::Result<PathBuf> {
    std::env::current_dir().context("the current directory cannot be told")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colon_in_front_is_the_other_side() {
        for (argument, place) in [
            ("a", Place::Local("a".into())),
            ("./:a", Place::Local("./:a".into())),
            (":a", Place::Remote("a".into())),
            (":", Place::Remote("".into())),
            (":/ws/a", Place::Remote("/ws/a".into())),
            ("a:b", Place::Local("a:b".into())),
        ] {
            assert_eq!(Place::parse(OsStr::new(argument)), place, "{argument}");
        }
    }
}
