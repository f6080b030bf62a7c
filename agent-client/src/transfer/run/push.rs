//! From here to the sidecar's side.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use futures_util::stream::{FuturesUnordered, TryStreamExt as _};

use super::{FILES, Run, SMALL_BYTES};
use crate::error::Error;
use crate::filesystem::Attributes;
use crate::filesystem::blocks::{BLOCK_BYTES, BLOCKS_AHEAD};
use crate::transfer::local::{self, blocking, modified_at_ms};
use crate::transfer::plan::{Deletion, File, Plan};
use crate::transfer::remote::RemoteSide;
use crate::transfer::tree::MODE_BITS;
use crate::transfer::{Observer, Report};

/// Makes the sidecar's side what `local` is.
pub(in crate::transfer) async fn push(
    mut plan: Plan,
    local: &Path,
    remote: &RemoteSide,
    observer: &dyn Observer,
) -> Result<Report, Error> {
    let run = Run::new(&mut plan, observer);
    let files = remote.files();
    let (directories, others): (Vec<_>, Vec<_>) = plan.deletions.into_iter().partition(|d| d.is_directory);
    for (deletions, at_once) in [(others, FILES), (directories, 1)] {
        let remove =
            |deletion: Deletion| async move { files.remove(&remote.at(&deletion.path), false).await };
        run.each(deletions, at_once, |d| d.path.clone(), remove, |report| report.deleted += 1).await?;
    }
    let remove = |path: PathBuf| async move { files.remove(&remote.at(&path), false).await };
    run.each(plan.in_the_way, FILES, PathBuf::clone, remove, |_| {}).await?;
    for level in by_depth(plan.directories) {
        let make = |(path, mode): (PathBuf, u32)| async move {
            // What comes next is written into it.
            let permissions = Some(mode | 0o700);
            let attributes = Attributes { permissions, create_parents: true, ..Attributes::default() };
            files.create_dir(&remote.at(&path), attributes).await
        };
        run.each(level, FILES, |(path, _)| path.clone(), make, |report| report.directories += 1).await?;
    }
    let link = |(path, target): (PathBuf, PathBuf)| async move {
        files.create_symlink(&remote.at(&path), &target, true).await
    };
    run.each(plan.symlinks, FILES, |(path, _)| path.clone(), link, |report| report.symlinks += 1).await?;
    let shared = &run;
    let upload = |file: File| async move {
        let from = match file.path.as_os_str().is_empty() {
            // The root may be reached through a symlink; nothing below it is.
            true => local.canonicalize().map_err(|cause| Error::Local { path: local.to_owned(), cause })?,
            false => local.join(&file.path),
        };
        upload(shared, &from, &remote.at(&file.path), remote, file.size).await?;
        shared.observer.file_done(&file.path);
        Ok(())
    };
    run.each(plan.files, FILES, |file| file.path.clone(), upload, |report| report.files += 1).await?;
    Ok(run.into_report())
}

/// Sends a file. It is in its place when this returns, with the mode and the time that it had when it was opened.
async fn upload(run: &Run<'_>, from: &Path, to: &Path, remote: &RemoteSide, size: u64) -> Result<(), Error> {
    let path = from.to_owned();
    let (mut file, metadata) = blocking(move || local::open_regular(&path)).await?;
    let attributes = Attributes {
        permissions: Some(local_mode(&metadata)),
        modified_at_ms: Some(modified_at_ms(&metadata)),
        create_parents: false,
    };
    let read = |mut file: std::fs::File, at_most: u64| {
        let path = from.to_owned();
        blocking(move || {
            let mut block = Vec::new();
            match io_read(&mut file, at_most, &mut block) {
                Ok(()) => Ok((file, block)),
                Err(cause) => Err(Error::Local { path, cause }),
            }
        })
    };
    let mut offset = 0;
    if size.max(metadata.len()) <= SMALL_BYTES {
        let (rest, content) = read(file, SMALL_BYTES + 1).await?;
        if content.len() as u64 <= SMALL_BYTES {
            remote.files().write(to, &content, attributes).await?;
            run.sent(content.len());
            return Ok(());
        }
        // It has grown since.
        file = rest;
        std::io::Seek::rewind(&mut file).map_err(|cause| Error::Local { path: from.to_owned(), cause })?;
    }
    let _turn = run.large.acquire().await;
    let writer = remote.files().replace(to, attributes).await?;
    {
        let mut writing = FuturesUnordered::new();
        loop {
            let (rest, block) = read(file, BLOCK_BYTES as u64).await?;
            file = rest;
            if block.is_empty() {
                break;
            }
            let (at, length) = (offset, block.len());
            offset += length as u64;
            let writer = &writer;
            writing.push(async move { writer.write(at, &block).await.map(|()| length) });
            while writing.len() >= BLOCKS_AHEAD
                && let Some(length) = writing.try_next().await?
            {
                run.sent(length);
            }
        }
        while let Some(length) = writing.try_next().await? {
            run.sent(length);
        }
    }
    writer.finish().await
}

fn io_read(file: &mut std::fs::File, at_most: u64, into: &mut Vec<u8>) -> std::io::Result<()> {
    file.take(at_most).read_to_end(into).map(drop)
}

fn local_mode(metadata: &std::fs::Metadata) -> u32 {
    std::os::unix::fs::MetadataExt::mode(metadata) & MODE_BITS
}

/// Paths of the same depth, the shallow ones first: each needs the one above it.
fn by_depth<T>(items: Vec<(PathBuf, T)>) -> Vec<Vec<(PathBuf, T)>> {
    let mut levels: Vec<Vec<(PathBuf, T)>> = Vec::new();
    for (path, more) in items {
        let depth = path.iter().count();
        while levels.len() <= depth {
            levels.push(Vec::new());
        }
        levels[depth].push((path, more));
    }
    levels
}
