//! `fs/getMetadata`.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::UNIX_EPOCH;

use rustix::fs::OFlags;
use sidecar_protocol::fs::Metadata;

use super::error::{At as _, Result};
use super::open::Link;
use super::{Confined, Symlinks, open};

/// A symlink is described by its target; a dangling one is not found.
pub(crate) fn metadata(_: &Confined, path: &Path, symlinks: Symlinks) -> Result<Metadata> {
    // Descriptors that can do nothing but be looked at.
    let open = |flags| open::open(path, OFlags::PATH | flags, symlinks).map(File::from);
    let file = match symlinks {
        Symlinks::Follow => open(OFlags::NOFOLLOW)?,
        // It is no link then.
        Symlinks::Refuse => open(OFlags::empty())?,
    };
    let found = file.metadata().at(path)?;
    let is_symlink = found.is_symlink();
    let (target, link) = if is_symlink {
        (open(OFlags::empty())?.metadata().at(path)?, Some(open::link(file.as_fd()).at(path)?))
    } else {
        (found, None)
    };
    let symlink_target = match link {
        Some(Link::To(target)) => Some(target.to_string_lossy().into_owned()),
        Some(Link::Untold) | None => None,
    };
    let created = target.created().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    Ok(Metadata {
        is_directory: target.is_dir(),
        is_file: target.is_file(),
        is_symlink,
        size: target.len(),
        created_at_ms: created.map_or(0, |at| i64::try_from(at.as_millis()).unwrap_or(i64::MAX)),
        modified_at_ms: target.mtime().saturating_mul(1000).saturating_add(target.mtime_nsec() / 1_000_000),
        mode: target.mode() & 0o7777,
        uid: target.uid(),
        gid: target.gid(),
        symlink_target,
    })
}
