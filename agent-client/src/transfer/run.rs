//! Doing what was planned: many small files at once, few large ones, directories before what is in them.

mod pull;
mod push;

use std::future::Future;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use futures_util::stream::{self, StreamExt as _};
use tokio::sync::Semaphore;

pub(super) use pull::pull;
pub(super) use push::push;

use super::plan::Plan;
use super::remote::reason;
use super::{Observer, Report, Skipped, is_fatal};
use crate::error::Error;

/// Files under way at once. The server takes 128 handles of a connection.
const FILES: usize = 64;

/// A file of that size or less goes in one message.
const SMALL_BYTES: u64 = 256 << 10;

/// Larger files under way at once; each has a few blocks in flight.
const LARGE_FILES: usize = 4;

/// What all parts of a run share.
struct Run<'a> {
    observer: &'a dyn Observer,
    report: Mutex<Report>,
    large: Semaphore,
}

impl<'a> Run<'a> {
    fn new(plan: &mut Plan, observer: &'a dyn Observer) -> Self {
        let report = Report {
            unchanged: plan.unchanged,
            skipped: std::mem::take(&mut plan.skipped),
            ..Report::default()
        };
        Self { observer, report: Mutex::new(report), large: Semaphore::new(LARGE_FILES) }
    }

    fn report(&self, change: impl FnOnce(&mut Report)) {
        change(&mut self.report.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn sent(&self, bytes: usize) {
        self.report(|report| report.bytes += bytes as u64);
        self.observer.advanced(bytes as u64);
    }

    fn into_report(self) -> Report {
        let mut report = self.report.into_inner().unwrap_or_else(PoisonError::into_inner);
        report.skipped.sort_by(|a, b| a.path.cmp(&b.path));
        report
    }

    /// Does one thing for each item, many at once. What fails for one item alone is noted.
    async fn each<T, F>(
        &self,
        items: impl IntoIterator<Item = T>,
        at_once: usize,
        path: impl Fn(&T) -> PathBuf,
        work: impl Fn(T) -> F,
        done: impl Fn(&mut Report),
    ) -> Result<(), Error>
    where
        F: Future<Output = Result<(), Error>>,
    {
        let jobs = items.into_iter().map(|item| {
            let path = path(&item);
            let job = work(item);
            async move { (path, job.await) }
        });
        let mut jobs = stream::iter(jobs).buffer_unordered(at_once);
        while let Some((path, outcome)) = jobs.next().await {
            match outcome {
                Ok(()) => self.report(&done),
                Err(error) if is_fatal(&error) => return Err(error),
                Err(error) => {
                    let reason = match &error {
                        Error::Local { cause, .. } => cause.to_string(),
                        error => reason(error),
                    };
                    self.report(|report| report.skipped.push(Skipped { path, reason }));
                }
            }
        }
        Ok(())
    }
}
