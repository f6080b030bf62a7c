//! Files and trees from here to the sidecar's side and back: streamed, many at once, and never half a file in place.
//!
//! | module | what it owns |
//! |---|---|
//! | [`tree`] | what is on one side |
//! | `rules` | what `.gitignore` leaves out |
//! | `local`, `remote` | listing either side |
//! | `writer` | changing this side |
//! | [`plan`] | what has to be done; touches nothing |
//! | `run` | doing it |
//!
//! A file is taken for the same where size, time of the last change and mode are: so a transfer that was interrupted
//! goes on where it was when it is repeated. A file appears under its name when all of it is there.
//!
//! What cannot be transferred (a FIFO, a file that may not be read) is in the [`Report`]; the rest is done all the same.

mod local;
pub mod plan;
mod remote;
mod rules;
mod run;
pub mod tree;
mod writer;

use std::path::{Path, PathBuf};

use serde::Serialize;

pub use plan::{Plan, Step};

use crate::error::Error;
use crate::filesystem::Filesystem;
use crate::protocol::ErrorKind;
pub(crate) use remote::RemoteSide;
pub(crate) use rules::Rules;
use writer::Writer;

/// What a transfer takes along.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Leave out `.git`, and what `.gitignore` files of the source say.
    pub ignore: bool,
    /// Remove from the destination what the source does not have; what is left out stays.
    pub delete: bool,
    /// Change nothing, and only tell what would be done.
    pub dry_run: bool,
}

/// Which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From here to the sidecar's side.
    Push,
    /// From the sidecar's side to here.
    Pull,
}

/// What a transfer did, or with [`Options::dry_run`] would do.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Files that were written.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Directories that were made.
    pub directories: u64,
    /// Symlinks that were made.
    pub symlinks: u64,
    /// What was removed.
    pub deleted: u64,
    /// Files and symlinks that were the same already.
    pub unchanged: u64,
    /// What was not transferred, and why.
    pub skipped: Vec<Skipped>,
    /// What would be done; only of a dry run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
}

/// Something that was not transferred.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// Below the roots of the transfer.
    #[serde(serialize_with = "lossy")]
    pub path: PathBuf,
    /// Why.
    pub reason: String,
}

/// Paths are text in JSON.
fn lossy<S: serde::Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

/// Is told how far a transfer has come.
pub trait Observer: Send + Sync {
    /// What is to come.
    fn planned(&self, files: u64, bytes: u64);
    /// More bytes have arrived.
    fn advanced(&self, bytes: u64);
    /// A file is in its place.
    fn file_done(&self, path: &Path);
}

/// Nobody wants to know.
impl Observer for () {
    fn planned(&self, _: u64, _: u64) {}
    fn advanced(&self, _: u64) {}
    fn file_done(&self, _: &Path) {}
}

/// One file or tree here, and its counterpart on the sidecar's side.
#[derive(Debug, Clone)]
pub struct Pair {
    /// Absolute, here.
    pub local: PathBuf,
    /// Absolute, on the sidecar's side.
    pub remote: PathBuf,
    /// Directories above `local`, the outermost first, whose `.gitignore` holds for it too.
    pub above: Vec<PathBuf>,
}

/// Transfers a file or a tree. Cancelled, it leaves whole files and the rest undone.
///
/// # Errors
/// The source is not there or cannot be listed; the connection is lost; no space is left on the destination. What
/// concerns one file alone is in the report.
pub async fn transfer(
    files: &Filesystem,
    pair: &Pair,
    direction: Direction,
    options: Options,
    observer: &dyn Observer,
) -> Result<Report, Error> {
    let remote = RemoteSide::new(files.unmapped(), pair.remote.clone());
    let mut rules = Rules::new(options.ignore);
    let (source, destination) = match direction {
        Direction::Push => {
            let source = local::list(&pair.local, &pair.above, &mut rules).await?;
            (source, remote.list_if_there(&mut rules.settled()).await?)
        }
        Direction::Pull => {
            rules.above(&pair.local, &pair.above);
            let source = remote.list(&mut rules).await?;
            (source, local::list_if_there(&pair.local, &mut rules.settled()).await?)
        }
    };
    let plan = plan::plan(source, destination, options.delete);
    if options.dry_run {
        return Ok(plan.into_report());
    }
    observer.planned(plan.files() as u64, plan.bytes());
    match direction {
        Direction::Push => run::push(plan, &pair.local, &remote, observer).await,
        Direction::Pull => run::pull(plan, &Writer::open(&pair.local)?, &remote, observer).await,
    }
}

/// Whether what follows would fail for the same reason.
fn is_fatal(error: &Error) -> bool {
    match error {
        Error::Local { cause, .. } => {
            matches!(cause.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
        }
        Error::Rpc { .. } => error.data().and_then(|data| data.kind) == Some(ErrorKind::NoSpace),
        _ => true,
    }
}
