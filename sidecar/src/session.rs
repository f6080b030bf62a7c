//! One client's processes, from `initialize` to its end. Sends nothing itself: each process has a pump for that.

mod registry;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sidecar_protocol::RpcError;
use tokio::sync::{mpsc, watch};
use tokio_util::task::TaskTracker;

pub(crate) use self::registry::Registry;
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
}

impl Session {
    fn new(id: String, shared: Arc<Shared>, notifications: mpsc::Sender<String>) -> Session {
        let table = Mutex::new(Table::new(shared.config.limits.processes));
        Session {
            id,
            shared,
            table,
            ending: watch::Sender::new(Ending::No),
            tasks: TaskTracker::new(),
            notifications,
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
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
