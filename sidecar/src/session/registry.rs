//! The sessions by id: made here, found here, resumed here, ended here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sidecar_protocol::RpcError;
use sidecar_protocol::error::SESSION_ATTACHED;
use tokio_util::task::TaskTracker;

use super::{Attachment, Ending, Session};
use crate::audit::Event;
use crate::caller::Caller;
use crate::connection::outbox::{Close, Outbox};
use crate::process::Process;
use crate::server::Shared;

/// How long the connection that has a session may take to show that it lives, when another one asks for it.
const PROBE: Duration = Duration::from_secs(2);

/// Why a session was ended, in the audit trail.
const EXPIRED: &str = "expired";

/// Every session that has not ended.
#[derive(Debug)]
pub(crate) struct Registry {
    /// Tells the ids of this run of the server from those of the last.
    boot: String,
    sessions: Mutex<Sessions>,
    /// Sessions that are on their way out.
    endings: TaskTracker,
}

#[derive(Debug, Default)]
struct Sessions {
    by_id: HashMap<String, Arc<Session>>,
    closed: bool,
}

/// What a request for a session finds.
enum Found {
    /// It is the asker's now.
    Attached(Attachment),
    /// Another connection has it: its number, and the way to it.
    Held(Arc<Session>, u64, Outbox),
}

impl Registry {
    pub(crate) fn new() -> Result<Registry, RpcError> {
        let boot = random_hex::<4>()?;
        Ok(Registry { boot, sessions: Mutex::default(), endings: TaskTracker::new() })
    }

    /// A new session, attached to the connection of that outbox.
    pub(crate) fn create(
        &self,
        shared: &Arc<Shared>,
        outbox: &Outbox,
        caller: &Arc<Caller>,
        resumable: bool,
    ) -> Result<Attachment, RpcError> {
        // 128 random bits: nobody guesses the id of another client's session.
        let id = format!("{}-{}", self.boot, random_hex::<16>()?);
        let mut sessions = self.lock();
        if sessions.closed {
            return Err(RpcError::invalid_request("the sidecar is shutting down: no new sessions"));
        }
        let max = shared.config.limits.sessions;
        if sessions.by_id.len() >= max {
            let message = format!(
                "{max} sessions are open already, detached ones among them (limits.sessions); end one, or wait until a \
                 detached one expires"
            );
            return Err(RpcError::limit("limits.sessions", message));
        }
        let session = Arc::new(Session::new(id.clone(), shared.clone(), outbox, caller, resumable));
        sessions.by_id.insert(id, session.clone());
        Ok(Attachment::first(session))
    }

    /// Gives a session to another connection of the same caller. Where one has it that is still there, that one is
    /// asked whether it lives, and loses the session if it does not answer.
    pub(crate) async fn resume(
        &self,
        shared: &Arc<Shared>,
        id: &str,
        outbox: &Outbox,
        caller: &Arc<Caller>,
    ) -> Result<Attachment, RpcError> {
        let mut silent = None;
        loop {
            let (session, number, held) = match self.find(shared, id, outbox, caller, silent)? {
                Found::Attached(attachment) => return Ok(attachment),
                Found::Held(session, number, held) => (session, number, held),
            };
            let mut link = session.link();
            if session.held_by().is_none_or(|(now, _)| now != number) {
                continue;
            }
            let alive = || {
                let message = format!("session {id} is attached to another connection, which is alive");
                Err(RpcError::new(SESSION_ATTACHED, message))
            };
            let taken = held.heard().taken();
            let answered = held.probe();
            tokio::select! {
                () = answered => return alive(),
                // It let go of the session, or somebody else has taken it.
                _ = link.changed() => {}
                () = tokio::time::sleep(PROBE) => {
                    // It has not hung up since, and has not come to the probe yet.
                    if held.heard().taken() != taken {
                        return alive();
                    }
                    silent = Some(number);
                }
                () = outbox.ended() => return Err(RpcError::invalid_request("the connection has ended")),
                () = shared.stop.cancelled() => return Err(shutting_down()),
            }
        }
    }

    /// Finds a session and attaches it, where nobody has it but a connection that was found silent.
    fn find(
        &self,
        shared: &Shared,
        id: &str,
        outbox: &Outbox,
        caller: &Arc<Caller>,
        silent: Option<u64>,
    ) -> Result<Found, RpcError> {
        // Under the lock: a session that is found here does not expire meanwhile.
        let sessions = self.lock();
        if sessions.closed {
            return Err(shutting_down());
        }
        let session = sessions.by_id.get(id).ok_or_else(|| self.unknown(id, shared))?;
        if !session.is_resumable() {
            let why = "it cannot be resumed: its client sent no resumeSessionId, or has called session/end";
            return Err(unknown(id, why));
        }
        if !session.caller().is_same(caller) {
            tracing::warn!(session = id, principal = caller.principal, "refused: another caller's session");
            let event = Event::by("session.refused", caller);
            shared.audit.record(&Event { session: Some(id), reason: Some("otherCaller"), ..event });
            let message = "this session was opened by another caller; only that one may resume it";
            return Err(RpcError::invalid_request(message));
        }
        match session.held_by() {
            Some((number, held)) if silent != Some(number) => Ok(Found::Held(session.clone(), number, held)),
            held => {
                let attachment = session.attach(outbox, caller);
                if let Some((_, held)) = held {
                    tracing::warn!(session = id, "taken from a connection that does not answer");
                    held.close(Close::resumed_elsewhere());
                }
                Ok(Found::Attached(attachment))
            }
        }
    }

    fn unknown(&self, id: &str, shared: &Shared) -> RpcError {
        let ttl = shared.config.limits.detached_ttl.as_secs();
        let boot = id.split_once('-').map(|(boot, _)| boot).filter(|boot| boot.len() == self.boot.len());
        match boot {
            Some(boot) if boot == self.boot => unknown(
                id,
                &format!("it has ended, or was without a connection for {ttl} s (limits.detachedTtlSeconds)"),
            ),
            Some(_) => unknown(id, "the sidecar was restarted since, and its processes are gone"),
            None => unknown(id, "it is no id of this sidecar"),
        }
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

    /// The connection is gone. A session that cannot be resumed ends with it: then this returns when its last process
    /// is gone.
    pub(crate) async fn leave(&self, attachment: Attachment) {
        let number = attachment.number();
        let session = attachment.into_session();
        let shared = session.shared().clone();
        let ttl = shared.config.limits.detached_ttl;
        if !session.is_resumable() || ttl.is_zero() {
            let _ending = self.endings.token();
            self.lock().by_id.remove(session.id());
            session.end(Ending::Kill, None).await;
        } else if session.detach(number) {
            tracing::info!(session = session.id(), "session detached");
            shared.tasks.clone().spawn(async move { shared.sessions.expire(&session, number, ttl).await });
        }
    }

    /// Ends a session that nobody takes in time.
    async fn expire(&self, session: &Arc<Session>, number: u64, ttl: Duration) {
        let shared = session.shared();
        let mut link = session.link();
        tokio::select! {
            _ = link.wait_for(|link| link.number != number) => return,
            () = shared.stop.cancelled() => return,
            () = tokio::time::sleep(ttl) => {}
        }
        let _ending = self.endings.token();
        {
            let mut sessions = self.lock();
            if !session.is_detached_since(number) {
                return;
            }
            sessions.by_id.remove(session.id());
        }
        tracing::info!(session = session.id(), "session expired");
        session.end(Ending::Terminate(shared.config.limits.terminate_grace), Some(EXPIRED)).await;
    }

    /// Ends every session, and lets no new one in; returns when the last process is gone.
    pub(crate) async fn end_all(&self, how: Ending) {
        let sessions: Vec<Arc<Session>> = {
            let mut sessions = self.lock();
            sessions.closed = true;
            sessions.by_id.values().cloned().collect()
        };
        futures_util::future::join_all(sessions.iter().map(|session| session.end(how, None))).await;
        // Those that a closing connection is ending right now.
        self.endings.close();
        self.endings.wait().await;
    }

    fn lock(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unknown(id: &str, why: &str) -> RpcError {
    RpcError::invalid_request(format!("unknown or expired session {id:?}: {why}"))
}

fn shutting_down() -> RpcError {
    RpcError::invalid_request("the sidecar is shutting down: no session can be resumed")
}

fn random_hex<const BYTES: usize>() -> Result<String, RpcError> {
    let mut bytes = [0u8; BYTES];
    getrandom::fill(&mut bytes).map_err(|e| RpcError::internal(format!("no random numbers: {e}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
