//! The sessions by id: made here, found here, ended here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use sidecar_protocol::RpcError;
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use super::{Ending, Session};
use crate::caller::Caller;
use crate::process::Process;
use crate::server::Shared;

/// Every session that has not ended.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    sessions: Mutex<Sessions>,
    /// Sessions that are on their way out.
    endings: TaskTracker,
}

#[derive(Debug, Default)]
struct Sessions {
    by_id: HashMap<String, Arc<Session>>,
    closed: bool,
}

impl Registry {
    /// A new session, whose notifications go to that lane.
    pub(crate) fn create(
        &self,
        shared: &Arc<Shared>,
        notifications: mpsc::Sender<String>,
        caller: Arc<Caller>,
    ) -> Result<Arc<Session>, RpcError> {
        let id = random_id()?;
        let mut sessions = self.lock();
        if sessions.closed {
            return Err(RpcError::invalid_request("the sidecar is shutting down: no new sessions"));
        }
        let session = Arc::new(Session::new(id.clone(), shared.clone(), notifications, caller));
        sessions.by_id.insert(id, session.clone());
        Ok(session)
    }

    /// The processes of every session.
    pub(crate) fn processes(&self) -> Vec<Arc<Process>> {
        let sessions: Vec<_> = self.lock().by_id.values().cloned().collect();
        sessions.iter().flat_map(|session| session.processes()).collect()
    }

    /// The processes of every session of one caller.
    pub(crate) fn processes_of(&self, principal: &str) -> Vec<Arc<Process>> {
        let sessions: Vec<_> = self.lock().by_id.values().cloned().collect();
        let own = sessions.iter().filter(|session| session.caller().principal == principal);
        own.flat_map(|session| session.processes()).collect()
    }

    /// Ends one session; returns when its last process is gone.
    pub(crate) async fn end(&self, session: &Arc<Session>, how: Ending) {
        let _ending = self.endings.token();
        self.lock().by_id.remove(session.id());
        session.end(how).await;
    }

    /// Ends every session, and lets no new one in; returns when the last process is gone.
    pub(crate) async fn end_all(&self, how: Ending) {
        let sessions: Vec<Arc<Session>> = {
            let mut sessions = self.lock();
            sessions.closed = true;
            sessions.by_id.values().cloned().collect()
        };
        futures_util::future::join_all(sessions.iter().map(|session| session.end(how))).await;
        // Those that a closing connection is ending right now.
        self.endings.close();
        self.endings.wait().await;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// 128 random bits: nobody guesses the id of another client's session.
fn random_id() -> Result<String, RpcError> {
    let mut bytes = [0u8; 16];
    getrandom::fill(&mut bytes).map_err(|e| RpcError::internal(format!("no random numbers: {e}")))?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}
