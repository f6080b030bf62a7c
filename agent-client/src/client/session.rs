//! The task of one session: it serves a connection until that ends and, where the session outlives it, makes the next
//! one and goes on. When no connection can be had any more, everything that is open ends with the reason.

use std::sync::Arc;
use std::time::Duration;

use sidecar_protocol::error::INVALID_REQUEST;
use sidecar_protocol::fs::ChangedNotification;
use sidecar_protocol::{Method, RequestId, envelope, method};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::acks;
use super::backoff::Backoff;
use super::handshake::shake;
use super::link::{self, End};
use super::watch::Watched;
use super::wire::{Lanes, Message};
use super::{Options, replay::Replay, table};
use crate::error::Error;
use crate::metrics::Reconnect;
use crate::transport::{Connect, Connection};

/// What a session needs to outlive a connection.
#[derive(Debug)]
pub(super) struct Resume {
    pub(super) connector: Arc<dyn Connect>,
    pub(super) session_id: String,
    /// How long the server keeps a session without a connection.
    pub(super) ttl: Duration,
    pub(super) options: Options,
}

/// Serves the session until its end.
pub(super) async fn run(
    mut connection: Connection,
    lanes: Lanes,
    mut messages: mpsc::Receiver<Message>,
    resume: Option<Resume>,
) {
    let mut first = Vec::new();
    let end_processes = resume.as_ref().is_some_and(|resume| !resume.options.leave_processes);
    let reason = loop {
        let up = lanes.table.metrics().connected();
        let end = link::serve(connection, &lanes, &mut messages, first, end_processes).await;
        drop(up);
        let lost = match end {
            End::Closed => break "this client closed it".to_owned(),
            End::Broken(reason) => break reason,
            End::Lost(reason) => reason,
        };
        let Some(resume) = &resume else { break lost };
        tracing::warn!(reason = lost, "the connection is lost; reconnecting");
        match resume.next_connection(&lanes, &lost).await {
            Ok(next) => {
                tracing::warn!("reconnected; the session goes on");
                connection = next;
                first = what_is_open(&lanes);
            }
            Err(reason) => break reason,
        }
    };
    tracing::debug!(reason, "the session ended");
    // In this order: a caller whose message is refused finds the reason in the table.
    lanes.table.lose(&reason);
    drop(messages);
}

impl Resume {
    /// Connects until that succeeds or the session cannot be there any more. The error says why there is none.
    async fn next_connection(&self, lanes: &Lanes, lost: &str) -> Result<Connection, String> {
        let metrics = lanes.table.metrics();
        let deadline = Instant::now() + self.ttl;
        let mut backoff = Backoff::default();
        loop {
            let attempt = tokio::select! {
                attempt = tokio::time::timeout_at(deadline, self.attempt(lanes)) => attempt,
                () = lanes.closing.cancelled() => return Err("this client closed it".to_owned()),
            };
            let failure = match attempt {
                Ok(Ok(connection)) => {
                    metrics.reconnect(Reconnect::Resumed);
                    return Ok(connection);
                }
                Ok(Err(Error::Rpc { error, .. })) if error.code == INVALID_REQUEST => {
                    metrics.reconnect(Reconnect::Refused);
                    return Err(format!("{lost}; the session cannot go on: {}", error.message));
                }
                Ok(Err(failure)) => failure.to_string(),
                Err(_) => "no answer".to_owned(),
            };
            tracing::debug!(failure, "cannot reconnect");
            let next = Instant::now() + backoff.next();
            if next >= deadline {
                metrics.reconnect(Reconnect::Unreachable);
                let ttl = humantime::format_duration(self.ttl);
                return Err(format!(
                    "{lost}; the sidecar could not be reached within {ttl}, which is as long as it keeps a session: \
                     {failure}"
                ));
            }
            tokio::select! {
                () = tokio::time::sleep_until(next) => {}
                () = lanes.closing.cancelled() => return Err("this client closed it".to_owned()),
            }
        }
    }

    async fn attempt(&self, lanes: &Lanes) -> Result<Connection, Error> {
        let mut connection = self.connector.connect().await?;
        let resume = Some(Some(self.session_id.clone()));
        let after = self.options.initialize_timeout;
        shake(&mut connection, &self.options.client_name, resume, received(lanes), after).await?;
        Ok(connection)
    }
}

/// How far each process has come here. An acknowledgement may have been lost with the connection, and the server would
/// wait for it.
fn received(lanes: &Lanes) -> Vec<Utf8Bytes> {
    if lanes.acks.pace().is_none() {
        return Vec::new();
    }
    let positions = lanes.table.find(|open| Some(open.routes.positions())).unwrap_or_default();
    positions.into_iter().map(|(id, seq)| acks::message(&id, seq).into()).collect()
}

/// What the new connection must be told before anything else: the requests that wait for an answer, the watches.
fn what_is_open(lanes: &Lanes) -> Vec<Utf8Bytes> {
    let mut first = lanes.table.interrupted();
    first.extend(watches(lanes));
    first
}

/// Each watch anew. What changed meanwhile is not known.
fn watches(lanes: &Lanes) -> Vec<Utf8Bytes> {
    let mut overflows = Vec::new();
    let again = lanes.table.find(|open| {
        let requests = open.watches.iter().map(|(watch_id, watched)| {
            let id = lanes.next_id.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            match &watched.changes {
                Some(changes) => changes.overflow(watch_id.clone()),
                None if watched.method == Method::FsWatch.name() => overflows.push(watch_id.clone()),
                // It tells by itself where what it waits for is there already.
                None => {}
            }
            (id, request(id, watched))
        });
        let requests: Vec<(i64, Utf8Bytes)> = requests.collect();
        for (id, text) in &requests {
            open.expect(*id, unanswered(text.clone()));
        }
        Some(requests)
    });
    if let Some(tap) = &lanes.tap {
        for watch_id in overflows {
            let change = ChangedNotification { watch_id, paths: Vec::new(), overflow: true };
            tap.put(envelope::notification(method::FS_CHANGED, &change).into());
        }
    }
    again.into_iter().flatten().map(|(_, text)| text).collect()
}

fn request(id: i64, watched: &Watched) -> Utf8Bytes {
    envelope::request(&RequestId::Int(id), watched.method, &watched.params).into()
}

/// A request whose answer is for nobody: its caller had the answer to the first one.
fn unanswered(text: Utf8Bytes) -> table::Request {
    table::Request {
        method: Method::FsWatch.name().into(),
        replay: Replay::Repeat,
        text: Some(text),
        starts: None,
        state: table::Sending::Sent,
        then: Box::new(|reply| tracing::debug!(?reply, "a watch was made anew")),
    }
}
