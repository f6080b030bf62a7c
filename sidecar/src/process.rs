//! One process as its session sees it: the log of its output, its stdin, its orders.
//!
//! [`launch`] brings it up, [`pump`] follows it and is the only one to write its log; requests read the log, queue
//! writes and give orders. Nothing here waits under a lock.

mod about;
pub(crate) mod account;
mod allowance;
mod census;
mod delivery;
mod denied;
pub(crate) mod environment;
pub(crate) mod launch;
mod leash;
mod log;
mod passing;
mod pump;
mod requests;
mod ring;
mod source;
mod stdin;
pub(crate) mod table;
mod validate;
pub(crate) mod watched;
mod words;

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sidecar_protocol::RpcError;
use sidecar_protocol::process::{Cause, ReadParams, ReadResult, Size, StartParams};
use tokio::sync::{mpsc, oneshot, watch};

use self::about::About;
use self::log::Log;
pub(crate) use self::stdin::{Answer, Input};
use self::stdin::{Share, Stdin};
use crate::config::Limits;

/// A read waits no longer than this, whatever it asks for.
const MAX_WAIT: Duration = Duration::from_secs(60 * 60);

/// One process, from the reservation of its id until it is forgotten.
#[derive(Debug)]
pub(crate) struct Process {
    id: String,
    about: About,
    log: Mutex<Log>,
    progress: watch::Sender<Progress>,
    stdin: Stdin,
    orders: mpsc::UnboundedSender<Order>,
    /// Up to where the client has acknowledged; `None`: it does not do so.
    acked: watch::Sender<Option<u64>>,
}

/// How far it has come. Changes with every event of its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) phase: Phase,
    /// The seq of the next event.
    pub(crate) next_seq: u64,
    /// Whether nothing is left of its tree.
    pub(crate) tree_gone: bool,
}

impl Progress {
    const START: Progress = Progress { phase: Phase::Starting, next_seq: 1, tree_gone: false };
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Its id is taken; it is being launched.
    Starting,
    Running,
    /// The command has ended; output may follow.
    Exited,
    /// All output was delivered.
    Closed,
    /// It never ran.
    Failed,
}

/// What its pump is asked to do.
#[derive(Debug)]
pub(crate) enum Order {
    /// To its process group.
    Signal(i32),
    /// SIGTERM to the tree, SIGKILL after the grace.
    Terminate {
        grace: Duration,
        /// Where the command has exited: what it left in the background too.
        descendants: bool,
    },
    /// SIGKILL to the tree, with the cause to tell.
    Kill(Cause),
    /// The size of its terminal; told when it has it.
    Resize(Size, oneshot::Sender<io::Result<()>>),
}

impl Process {
    fn new(params: &StartParams, limits: &Limits, orders: mpsc::UnboundedSender<Order>) -> Process {
        let progress = watch::Sender::new(Progress::START);
        let stdin = Stdin::new(params.tty);
        Process {
            id: params.process_id.clone(),
            about: About::new(params),
            log: Mutex::new(Log::new(limits)),
            progress,
            stdin,
            orders,
            acked: watch::Sender::new(None),
        }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn phase(&self) -> Phase {
        self.progress.borrow().phase
    }

    /// Waits for the launch to end; the phase is never `Starting` then.
    pub(crate) async fn launched(&self) -> Phase {
        self.when(|progress| progress.phase != Phase::Starting).await.phase
    }

    /// Gives an order to the pump. Lost where there is none any more: then there is nothing left to be ordered about.
    pub(crate) fn order(&self, order: Order) {
        let _ = self.orders.send(order);
    }

    /// The client has everything up to a seq; from the first call on, what it does not have is not dropped.
    pub(crate) fn acknowledge(&self, seq: u64) {
        // Nobody has what has not happened yet.
        let seq = seq.min(self.progress.borrow().next_seq - 1);
        self.acked.send_if_modified(|acked| {
            let known = *acked;
            *acked = Some(known.unwrap_or_default().max(seq));
            *acked != known
        });
    }

    /// Whether nothing of it has to be kept for a client that acknowledges: it is closed, and that is known.
    pub(crate) fn is_settled(&self) -> bool {
        let Progress { phase, next_seq, .. } = *self.progress.borrow();
        phase >= Phase::Closed && self.acked.borrow().is_none_or(|acked| acked >= next_seq - 1)
    }

    /// A connection is attached: to a client that does not acknowledge, events are sent from here on.
    pub(crate) fn attach(&self) {
        self.log().attach();
    }

    /// Queues what stdin is to get, in the order of the calls. It is answered when that is done.
    pub(crate) fn input(&self, input: Input, share: Share, answer: Answer) {
        self.stdin.queue(input, share, answer);
    }

    /// Waits for output after a seq, where the request says so.
    pub(crate) async fn news(&self, params: &ReadParams) -> Result<(), RpcError> {
        let news = |progress: &Progress| {
            progress.next_seq > params.after_seq.saturating_add(1) || progress.phase >= Phase::Closed
        };
        let wait = Duration::from_millis(params.wait_ms).min(MAX_WAIT);
        // Without anything new the answer says just that.
        let _ = tokio::time::timeout(wait, self.when(news)).await;
        self.ran().await
    }

    /// Output after a seq, as far as there is some.
    pub(crate) fn read(&self, params: &ReadParams) -> ReadResult {
        self.log().read(params.after_seq, params.max_bytes)
    }

    fn progressed(&self, change: impl FnOnce(&mut Progress)) {
        self.progress.send_modify(change);
        self.stdin.reached(self.phase());
    }

    async fn when(&self, is: impl FnMut(&Progress) -> bool) -> Progress {
        let mut progress = self.progress.subscribe();
        // Cannot fail: the sender is a field of this very process.
        let reached = progress.wait_for(is).await.map(|progress| *progress);
        reached.unwrap_or_else(|_| *self.progress.borrow())
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The error of a call about a process that is not known.
pub(crate) fn unknown(process_id: &str) -> RpcError {
    RpcError::invalid_request(format!("unknown process id {process_id}"))
}
