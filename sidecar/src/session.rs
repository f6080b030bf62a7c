//! One client's processes, from `initialize` to its end. Sends nothing itself: each process has a pump for that.

mod registry;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sidecar_protocol::RpcError;
use tokio::sync::{mpsc, watch};
use tokio_util::task::TaskTracker;

pub(crate) use self::registry::Registry;
use crate::audit::Event;
use crate::caller::Caller;
use crate::metrics::Counted;
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
    /// The lane of the connection that it is attached to.
    notifications: mpsc::Sender<String>,
    caller: Arc<Caller>,
    /// Counts among the open ones until it has ended.
    open: Mutex<Option<Counted>>,
}

impl Session {
    fn new(
        id: String,
        shared: Arc<Shared>,
        notifications: mpsc::Sender<String>,
        caller: Arc<Caller>,
    ) -> Session {
        let table = Mutex::new(Table::new(shared.config.limits.processes));
        let open = Mutex::new(Some(shared.metrics.requests.attached()));
        Session {
            id,
            shared,
            table,
            ending: watch::Sender::new(Ending::No),
            tasks: TaskTracker::new(),
            notifications,
            caller,
            open,
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

    pub(crate) fn notifications(&self) -> &mpsc::Sender<String> {
        &self.notifications
    }

    /// Who opened it.
    pub(crate) fn caller(&self) -> &Arc<Caller> {
        &self.caller
    }

    pub(crate) fn ending(&self) -> watch::Receiver<Ending> {
        self.ending.subscribe()
    }

    /// Takes the process's id, so that what the client sends next finds it.
    pub(crate) fn reserve(&self, process: &Arc<Process>) -> Result<(), RpcError> {
        let mut table = self.lock();
        // Under the table's lock: a process that is let in after this is seen by `end`.
        if *self.ending.borrow() != Ending::No {
            return Err(RpcError::invalid_request("the session is ending"));
        }
        table.reserve(process)
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

    /// Ends every process; returns when the last tree is gone.
    async fn end(&self, how: Ending) {
        {
            let _table = self.lock();
            self.ending.send_replace(how);
        }
        self.tasks.close();
        self.tasks.wait().await;
        // A session may be ended twice, by its connection and by the server.
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
        if open.is_some() {
            let event = Event::by("session.close", &self.caller);
            self.shared.audit.record(&Event { session: Some(&self.id), ..event });
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
