//! What is counted and recorded of one launch, from the request to the exit of the command.
//!
//! An [`Attempt`] becomes an [`Account`] or a refusal, an account ends with the exit: each launch is told exactly once,
//! also where the client goes away in the middle of it.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use sidecar_protocol::process::{Cause, StartParams, Stream};
use sidecar_protocol::{ErrorData, ErrorKind, RpcError};
use sidecar_sandbox::{CUSTOM, Receipt, Request};
use tokio::time::Instant;

use crate::audit::argv::Argv;
use crate::audit::event::{Enforcement, Event};
use crate::caller::Caller;
use crate::metrics::{Counted, labels};
use crate::policy;
use crate::server::Shared;
use crate::session::Session;

/// A request to start a command, until it is known what became of it.
#[derive(Debug)]
pub(crate) struct Attempt {
    owner: Owner,
    at: Instant,
    tty: bool,
    profile: String,
    /// `None` where there is no trail.
    facts: Option<Facts>,
    told: bool,
}

/// A command that has started.
#[derive(Debug)]
pub(super) struct Account {
    owner: Owner,
    started: Instant,
    tty: bool,
    output_bytes: u64,
    /// Of what the ring has dropped, what is counted.
    dropped_bytes: u64,
    /// Whether the background processes were counted.
    orphans_counted: bool,
    /// Counts among the running ones; `None` once its exit is told.
    running: Option<Counted>,
}

/// Whose launch it is.
#[derive(Debug, Clone)]
struct Owner {
    session: Arc<Session>,
    process_id: String,
    caller: Arc<Caller>,
}

/// What the record of a launch holds of its request.
#[derive(Debug)]
struct Facts {
    argv: Argv,
    cwd: String,
    env_names: Vec<String>,
    metadata: Option<Value>,
}

/// How a command ended.
pub(super) struct Ended<'a> {
    pub(super) code: i32,
    pub(super) signal: Option<&'a str>,
    pub(super) cause: Cause,
    /// Whether the sandbox may have been in the way.
    pub(super) denied: bool,
    pub(super) hint: Option<&'a str>,
}

impl Owner {
    fn shared(&self) -> &Shared {
        self.session.shared()
    }

    fn event(&self, event: &'static str) -> Event<'_> {
        Event {
            session: Some(self.session.id()),
            process_id: Some(&self.process_id),
            ..Event::by(event, &self.caller)
        }
    }
}

impl Attempt {
    pub(crate) fn new(session: &Arc<Session>, params: &StartParams) -> Attempt {
        let shared = session.shared();
        let audit = &shared.audit;
        let facts = audit.is_on().then(|| Facts {
            argv: Argv::new(&params.argv, &audit.config().redact),
            cwd: params.cwd.as_path().to_string_lossy().into_owned(),
            env_names: params.env.keys().cloned().collect(),
            metadata: params.metadata.clone(),
        });
        Attempt {
            owner: Owner {
                session: session.clone(),
                process_id: params.process_id.clone(),
                caller: session.caller(),
            },
            at: Instant::now(),
            tty: params.tty,
            profile: profile(shared, params),
            facts,
            told: false,
        }
    }

    /// Tells of a request that is none.
    pub(crate) fn unreadable(session: &Arc<Session>, error: &RpcError) {
        let shared = session.shared();
        shared.metrics.launches.failed(false, shared.config.sandbox.default.name(), error);
        let caller = session.caller();
        let event = Event::by("launch.refused", &caller);
        let reason = Some(labels::launch(error).1);
        shared.audit.record(&Event { session: Some(session.id()), reason, ..event });
    }

    /// The names of the variables that the command gets, where there are more than the request's own.
    pub(super) fn environment(&mut self, env: &[(OsString, OsString)]) {
        if let Some(facts) = &mut self.facts {
            facts.env_names = env.iter().map(|(name, _)| name.to_string_lossy().into_owned()).collect();
        }
    }

    /// Refuses a launch of which it is known beforehand that its record cannot be written.
    pub(super) fn permit(&self) -> Result<(), RpcError> {
        if self.owner.shared().audit.must_refuse() { Err(unrecorded()) } else { Ok(()) }
    }

    /// It did not start.
    pub(crate) fn refused(mut self, error: &RpcError) {
        self.told = true;
        self.owner.shared().metrics.launches.failed(self.tty, &self.profile, error);
        self.record_refusal(labels::launch(error).1);
    }

    /// It started. The error: its record cannot be written, and it must be ended. Blocking where it waits for that.
    pub(super) fn started(mut self, receipt: &Receipt) -> Result<Account, RpcError> {
        let shared = self.owner.session.shared().clone();
        let event = Event {
            enforcement: Some(Enforcement::new(receipt)),
            profile: Some(&receipt.profile),
            ..self.event("launch")
        };
        if shared.audit.record_launch(&event).is_err() {
            let error = unrecorded();
            self.refused(&error);
            return Err(error);
        }
        self.told = true;
        Ok(Account {
            running: Some(shared.metrics.launches.started(self.tty, &receipt.profile, self.at.elapsed())),
            owner: self.owner.clone(),
            started: Instant::now(),
            tty: self.tty,
            output_bytes: 0,
            dropped_bytes: 0,
            orphans_counted: false,
        })
    }

    fn record_refusal(&self, reason: &'static str) {
        self.owner.shared().audit.record(&Event { reason: Some(reason), ..self.event("launch.refused") });
    }

    fn event(&self, event: &'static str) -> Event<'_> {
        let facts = self.facts.as_ref();
        Event {
            argv: facts.map(|facts| &facts.argv),
            cwd: facts.map(|facts| facts.cwd.as_str()),
            env_names: facts.map(|facts| facts.env_names.as_slice()),
            metadata: facts.and_then(|facts| facts.metadata.as_ref()),
            tty: Some(self.tty),
            profile: Some(&self.profile),
            ..self.owner.event(event)
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.told {
            // The client went away before anything was started.
            self.record_refusal(Cause::Disconnect.name());
        }
    }
}

impl Account {
    /// Whose it is.
    pub(super) fn session(&self) -> &Arc<Session> {
        &self.owner.session
    }

    /// It wrote. `dropped` is what its ring has dropped so far.
    pub(super) fn output(&mut self, stream: Stream, bytes: usize, dropped: u64) {
        let launches = &self.owner.shared().metrics.launches;
        launches.output(stream, bytes as u64);
        launches.dropped(dropped.saturating_sub(self.dropped_bytes));
        self.output_bytes += bytes as u64;
        self.dropped_bytes = dropped;
    }

    /// What it wrote waited to be sent.
    pub(super) fn waited(&self, time: Duration) {
        self.owner.shared().metrics.launches.waited(time);
    }

    /// Whether the background processes that are about to be ended are still to be counted.
    pub(super) fn wants_orphans(&self) -> bool {
        !self.orphans_counted
    }

    pub(super) fn orphans(&mut self, count: usize) {
        self.orphans_counted = true;
        self.owner.shared().metrics.launches.orphans(count);
    }

    /// The command ended. Only the first call tells it.
    pub(super) fn exited(&mut self, end: &Ended<'_>) {
        if self.running.take().is_none() {
            return;
        }
        let shared = self.owner.shared();
        let lifetime = self.started.elapsed();
        shared.metrics.launches.exited(self.tty, end.cause, lifetime, end.denied);
        if end.denied {
            shared.audit.record(&Event { hint: end.hint, ..self.owner.event("denial.suspected") });
        }
        shared.audit.record(&Event {
            exit_code: Some(end.code),
            signal: end.signal,
            cause: Some(end.cause.name()),
            duration_ms: Some(u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX)),
            output_bytes: Some(self.output_bytes),
            ..self.owner.event("exit")
        });
    }
}

impl Drop for Account {
    /// Nobody followed the command to its exit: the client went away meanwhile, and its tree is killed.
    fn drop(&mut self) {
        let signal = Some("SIGKILL");
        self.exited(&Ended { code: 137, signal, cause: Cause::Disconnect, denied: false, hint: None });
    }
}

fn unrecorded() -> RpcError {
    let message = "the launch is refused: its audit record cannot be written, and audit.onFailure is refuse";
    RpcError::internal(message).with_data(&ErrorData { kind: Some(ErrorKind::Os), ..ErrorData::default() })
}

/// The profile that a request asks for, cut down to the ceiling; the default one where it asks for none that there is.
fn profile(shared: &Shared, params: &StartParams) -> String {
    let options = &shared.config.sandbox;
    let request = policy::request(params.sandbox.as_ref(), params.cwd.as_path(), options);
    let profile = match &request {
        Ok(Request::Permissions(_) | Request::Within(..)) => return CUSTOM.to_owned(),
        Ok(Request::Profile(profile)) => profile,
        Ok(Request::Ceiling) => &options.ceiling,
        Ok(Request::Default) | Err(_) => &options.default,
    };
    options.cut_down(profile).name().to_owned()
}
