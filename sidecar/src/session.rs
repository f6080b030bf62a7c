//! One client's processes, from `initialize` to its end, over one connection or several. Sends nothing itself: each
//! process has a pump for that.

mod attachment;
mod registry;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sidecar_protocol::RpcError;
use sidecar_protocol::process::AckNotification;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio_util::task::TaskTracker;

pub(crate) use self::attachment::Attachment;
use self::attachment::Holder;
pub(crate) use self::registry::Registry;
use crate::audit::Event;
use crate::caller::Caller;
use crate::connection::outbox::Outbox;
use crate::process::Process;
use crate::process::table::Table;
use crate::server::Shared;

/// What is to become of a session's processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// They live.
    No,
    /// SIGTERM to every tree, SIGKILL after the grace.
    Terminate(Duration),
    /// SIGKILL to every tree.
    Kill,
}

/// Where the notifications of a session go.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    /// The connection that is attached, or was last: they are counted from 1.
    number: u64,
    /// Its lane; `None` while it has not done its handshake, and once it is gone.
    pub(crate) lane: Option<mpsc::Sender<Vec<u8>>>,
}

/// One client's processes.
#[derive(Debug)]
pub(crate) struct Session {
    id: String,
    shared: Arc<Shared>,
    table: Mutex<Table>,
    /// Pumps and launches listen to it.
    ending: watch::Sender<Ending>,
    /// Pumps and launches that have not ended.
    tasks: TaskTracker,
    /// Bytes of input that may wait for processes to read it.
    input: Arc<Semaphore>,
    /// Pumps send by it.
    link: watch::Sender<Link>,
    holder: Mutex<Holder>,
    /// Whether it outlives its connection; a client can give that up.
    resumable: AtomicBool,
}

impl Session {
    /// A session that is attached to its first connection.
    fn new(
        id: String,
        shared: Arc<Shared>,
        outbox: &Outbox,
        caller: &Arc<Caller>,
        resumable: bool,
    ) -> Session {
        let table = Mutex::new(Table::new(shared.config.limits.processes));
        let holder = Mutex::new(Holder::first(&shared, outbox, caller));
        let input = Arc::new(Semaphore::new(shared.config.limits.request_bytes));
        Session {
            id,
            shared,
            table,
            ending: watch::Sender::new(Ending::No),
            tasks: TaskTracker::new(),
            input,
            link: watch::Sender::new(Link { number: attachment::FIRST, lane: None }),
            holder,
            resumable: AtomicBool::new(resumable),
        }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    pub(crate) fn link(&self) -> watch::Receiver<Link> {
        self.link.subscribe()
    }

    fn is_resumable(&self) -> bool {
        self.resumable.load(Ordering::Acquire)
    }

    /// Its client does not mean to come back.
    pub(crate) fn end_with_connection(&self) {
        self.resumable.store(false, Ordering::Release);
    }

    /// Who is at the other end, or was last.
    pub(crate) fn caller(&self) -> Arc<Caller> {
        self.holder().caller.clone()
    }

    pub(crate) fn ending(&self) -> watch::Receiver<Ending> {
        self.ending.subscribe()
    }

    /// Takes the process's id, so that what the client sends next finds it.
    pub(crate) fn reserve(&self, process: &Arc<Process>) -> Result<(), RpcError> {
        let mut table = self.lock();
        // Under the table's lock: a process that is let in after this is seen by `end`.
        if self.has_ended() {
            return Err(RpcError::invalid_request("the session is ending"));
        }
        table.reserve(process)
    }

    /// A share for input of that many bytes, until it is written. One connection never meets this limit: what it has in
    /// flight is bounded by the same number. What waits of the connections before it counts too.
    pub(crate) fn queue_input(&self, bytes: usize) -> Result<OwnedSemaphorePermit, RpcError> {
        const KEY: &str = "limits.requestBytes";
        let share = u32::try_from(bytes).ok().and_then(|n| self.input.clone().try_acquire_many_owned(n).ok());
        share.ok_or_else(|| {
            let message = format!(
                "too much input of this session waits for processes that do not read it ({KEY}); terminate them, or wait"
            );
            RpcError::limit(KEY, message)
        })
    }

    pub(crate) fn find(&self, process_id: &str) -> Option<Arc<Process>> {
        self.lock().find(process_id)
    }

    /// Every process that is not forgotten, in the order of their starts.
    pub(crate) fn processes(&self) -> Vec<Arc<Process>> {
        self.lock().all()
    }

    /// Forgets the process: its id is free again.
    pub(crate) fn forget(&self, process: &Arc<Process>) {
        self.lock().forget(process);
    }

    /// The client has received so much. It may be of a process that is forgotten already.
    pub(crate) fn acknowledge(&self, ack: &AckNotification) {
        self.lock().acknowledge(&ack.process_id, ack.seq);
    }

    fn has_ended(&self) -> bool {
        *self.ending.borrow() != Ending::No
    }

    /// Ends every process; returns when the last tree is gone. The reason is for the audit trail.
    async fn end(&self, how: Ending, reason: Option<&'static str>) {
        {
            let _table = self.lock();
            self.ending.send_replace(how);
        }
        self.tasks.close();
        self.tasks.wait().await;
        // A session may be ended twice, by its connection and by the server.
        let open = self.holder().open.take();
        if open.is_some() {
            let caller = self.caller();
            let event = Event::by("session.close", &caller);
            self.shared.audit.record(&Event { session: Some(&self.id), reason, ..event });
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn holder(&self) -> MutexGuard<'_, Holder> {
        self.holder.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
