//! From the sidecar's side to here.

use std::path::PathBuf;

use futures_util::stream::TryStreamExt as _;
use tokio::sync::mpsc;

use super::{FILES, Run, SMALL_BYTES};
use crate::error::Error;
use crate::transfer::local::{blocking, joined};
use crate::transfer::plan::{File, Plan};
use crate::transfer::remote::RemoteSide;
use crate::transfer::writer::Writer;
use crate::transfer::{Observer, Report};

/// One thing to do here.
type Work = Box<dyn FnOnce(&Writer) -> Result<(), Error> + Send>;

/// Makes `local` what the sidecar's side is.
pub(in crate::transfer) async fn pull(
    mut plan: Plan,
    local: &Writer,
    remote: &RemoteSide,
    observer: &dyn Observer,
) -> Result<Report, Error> {
    let run = Run::new(&mut plan, observer);
    let here = |work: Work| {
        let local = local.clone();
        blocking(move || work(&local))
    };
    let deletions = plan.deletions.into_iter().map(|d| (d.path, d.is_directory));
    let remove = |(path, is_directory): (PathBuf, bool)| {
        here(Box::new(move |local| local.remove(&path, is_directory)))
    };
    run.each(deletions, 1, |(path, _)| path.clone(), remove, |report| report.deleted += 1).await?;
    let in_the_way = plan.in_the_way.into_iter().map(|path| (path, false));
    run.each(in_the_way, 1, |(path, _)| path.clone(), remove, |_| {}).await?;
    let make =
        |(path, mode): (PathBuf, u32)| here(Box::new(move |local| local.create_dir(&path, mode | 0o700)));
    run.each(plan.directories, 1, |(path, _)| path.clone(), make, |report| report.directories += 1).await?;
    let link = |(path, target): (PathBuf, PathBuf)| {
        here(Box::new(move |local| local.create_symlink(&path, &target)))
    };
    run.each(plan.symlinks, 1, |(path, _)| path.clone(), link, |report| report.symlinks += 1).await?;
    let shared = &run;
    let download = |file: File| async move {
        download(shared, &file, local, remote).await?;
        shared.observer.file_done(&file.path);
        Ok(())
    };
    run.each(plan.files, FILES, |file| file.path.clone(), download, |report| report.files += 1).await?;
    Ok(run.into_report())
}

/// Fetches a file. It is in its place when this returns.
async fn download(run: &Run<'_>, file: &File, local: &Writer, remote: &RemoteSide) -> Result<(), Error> {
    let from = remote.at(&file.path);
    if file.size <= SMALL_BYTES {
        let content = remote.files().read_small(&from).await?;
        let length = content.len();
        let (local, file) = (local.clone(), file.clone());
        blocking(move || {
            let mut new = local.create(&file.path)?;
            new.write(&content)?;
            new.finish(file.mode, file.modified_at_ms)
        })
        .await?;
        run.sent(length);
        return Ok(());
    }
    let _turn = run.large.acquire().await;
    let reader = remote.files().open(&from).await?;
    let (blocks, mut incoming) = mpsc::channel::<Option<Vec<u8>>>(1);
    // The writer has the file to itself: where this task is cancelled, the writer gives it up.
    let (local, file) = (local.clone(), file.clone());
    let writing = tokio::task::spawn_blocking(move || {
        let mut new = local.create(&file.path)?;
        loop {
            match incoming.blocking_recv() {
                Some(Some(block)) => new.write(&block)?,
                Some(None) => return new.finish(file.mode, file.modified_at_ms),
                None => return Ok(()),
            }
        }
    });
    let received = async {
        let mut source = std::pin::pin!(reader.blocks());
        while let Some(block) = source.try_next().await? {
            let length = block.len();
            // A writer that is gone has an error to tell.
            if blocks.send(Some(block)).await.is_err() {
                return Ok(());
            }
            run.sent(length);
        }
        let _ = blocks.send(None).await;
        Ok(())
    }
    .await;
    drop(blocks);
    let written = joined(writing).await;
    received.and(written)?;
    reader.close().await
}
