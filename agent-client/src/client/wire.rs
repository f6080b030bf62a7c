//! The callers' side of a session: it numbers requests, registers them and waits for their answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use sidecar_protocol::fs::WatchId;
use sidecar_protocol::process::{StartParams, StartResult};
use sidecar_protocol::{MAX_MESSAGE_BYTES, Method, RequestId, envelope};
use tokio::sync::{mpsc, oneshot};
use tokio_tungstenite::tungstenite::Utf8Bytes;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::acks::{self, Acks};
use super::replay::Replay;
use super::table::{Open, Reply, Request, Sending, Table, Then};
use super::tap::Tap;
use super::watch::Watched;
use crate::error::Error;
use crate::events::EventSender;
use crate::metrics::Metrics;

/// Messages that wait for the socket, at most; a further request waits.
const OUTGOING: usize = 64;

/// What a caller hands to the writer.
#[derive(Debug)]
pub(super) struct Message {
    /// The request's.
    pub(super) id: i64,
    pub(super) text: Utf8Bytes,
    /// Goes right behind it.
    pub(super) follow: Option<Utf8Bytes>,
}

/// A request as it is to be sent.
pub(crate) struct Call<'a, P> {
    pub(crate) method: &'a str,
    pub(crate) params: &'a P,
    pub(crate) replay: Replay,
}

/// Clones share the session, which ends when the last one is dropped.
#[derive(Debug, Clone)]
pub(crate) struct Wire {
    table: Arc<Table>,
    acks: Arc<Acks>,
    outgoing: mpsc::Sender<Message>,
    next_id: Arc<AtomicI64>,
    closing: CancellationToken,
    ended: CancellationToken,
    _alive: Arc<DropGuard>,
}

/// The other end, for the session's task.
#[derive(Debug)]
pub(super) struct Lanes {
    pub(super) table: Arc<Table>,
    pub(super) acks: Arc<Acks>,
    pub(super) next_id: Arc<AtomicI64>,
    /// Gets every notification as it came, where there is one.
    pub(super) tap: Option<Tap>,
    /// No caller is left, or one wants the end.
    pub(super) closing: CancellationToken,
    /// Tells that the task has ended.
    pub(super) _ended: DropGuard,
}

impl Wire {
    pub(super) fn new(metrics: Metrics, tap: Option<Tap>) -> (Self, Lanes, mpsc::Receiver<Message>) {
        let table = Arc::new(Table::new(metrics, tap.is_some()));
        let acks = Arc::new(Acks::default());
        let (outgoing, messages) = mpsc::channel(OUTGOING);
        let (closing, ended) = (CancellationToken::new(), CancellationToken::new());
        let next_id = Arc::new(AtomicI64::new(1));
        let wire = Self {
            table: Arc::clone(&table),
            acks: Arc::clone(&acks),
            outgoing,
            next_id: Arc::clone(&next_id),
            closing: closing.clone(),
            ended: ended.clone(),
            _alive: Arc::new(closing.clone().drop_guard()),
        };
        let lanes = Lanes { table, acks, next_id, tap, closing, _ended: ended.drop_guard() };
        (wire, lanes, messages)
    }

    pub(crate) fn acks(&self) -> &Arc<Acks> {
        &self.acks
    }

    pub(super) fn table(&self) -> &Table {
        &self.table
    }

    pub(super) async fn request<P, R>(&self, method: Method, params: &P) -> Result<R, Error>
    where
        P: Serialize,
        R: DeserializeOwned,
    {
        let call = Call { method: method.name(), params, replay: Replay::of(method.name()) };
        self.call(method, call, None, |_| Ok(())).await
    }

    pub(super) async fn start(&self, params: &StartParams, route: Routed) -> Result<StartResult, Error> {
        let call = Call { method: Method::ProcessStart.name(), params, replay: Replay::Start };
        let starts = Some(Arc::clone(&route.process_id));
        let metrics = self.table.metrics().clone();
        let started = self
            .call(Method::ProcessStart, call, starts, |open| route.register(open, &metrics, params.tty))
            .await;
        if let Err(Error::Answer { .. }) = &started {
            self.table.find(|open| open.routes.remove(&params.process_id));
        }
        started
    }

    /// Sends a request whose `params` may hold anything. The reply is handed to `then`; see [`Then`].
    pub(crate) async fn pass_on<P: Serialize>(&self, call: Call<'_, P>, then: Then) -> Result<(), Error> {
        self.send(call, None, then, |_| Ok(())).await
    }

    /// The same of one that starts a process.
    pub(crate) async fn pass_on_start<P: Serialize>(
        &self,
        call: Call<'_, P>,
        process_id: Arc<str>,
        tty: bool,
        then: Then,
    ) -> Result<(), Error> {
        let metrics = self.table.metrics().clone();
        let route = Routed { process_id: Arc::clone(&process_id), events: None, progress: Arc::default() };
        self.send(call, Some(process_id), then, |open| route.register(open, &metrics, tty)).await
    }

    /// A notification of a process has been passed on.
    pub(crate) fn passed_on(&self, process_id: &Arc<str>, seq: u64, bytes: usize) {
        self.table.find(|open| {
            open.routes.passed_on(&self.acks, process_id, seq, bytes);
            Some(())
        });
    }

    /// A client of the session's own says that it has everything of a process up to `seq`.
    pub(crate) fn acknowledged(&self, process_id: &Arc<str>, seq: u64) {
        self.table.find(|open| {
            open.routes.consumed(process_id, seq);
            Some(())
        });
        self.acks.acknowledge(process_id, seq);
    }

    /// The watches of the session.
    pub(crate) fn watches(&self) -> Watching {
        Watching { table: Arc::clone(&self.table) }
    }

    /// Why the session has ended.
    pub(crate) fn lost(&self) -> Error {
        self.table.lost()
    }

    /// Returns once the session has ended.
    pub(crate) async fn ended(&self) {
        self.ended.cancelled().await;
    }

    pub(crate) async fn close(self) {
        self.closing.cancel();
        self.ended.cancelled().await;
    }

    async fn call<P: Serialize, R: DeserializeOwned>(
        &self,
        method: Method,
        call: Call<'_, P>,
        starts: Option<Arc<str>>,
        also: impl FnOnce(&mut Open) -> Result<(), Error>,
    ) -> Result<R, Error> {
        let (sender, reply) = oneshot::channel();
        // A caller that does not wait any more needs none.
        let then = Box::new(|reply| drop(sender.send(reply)));
        self.send(call, starts, then, also).await?;
        let method = method.name();
        match reply.await {
            Ok(Reply::Answer(Ok(result))) => {
                serde_json::from_str(result.get()).map_err(|cause| Error::Answer { method, cause })
            }
            Ok(Reply::Answer(Err(error))) => Err(Error::Rpc { method, error }),
            Ok(Reply::Interrupted) => Err(Error::Interrupted { method }),
            Ok(Reply::Lost(reason)) => Err(Error::ConnectionLost { reason }),
            Err(_) => Err(self.table.lost()),
        }
    }

    /// Registers a request, and what `also` registers with it, and hands it to the writer, in one step: a caller that
    /// is cancelled leaves nothing behind that no answer would clear.
    async fn send<P: Serialize>(
        &self,
        call: Call<'_, P>,
        starts: Option<Arc<str>>,
        then: Then,
        also: impl FnOnce(&mut Open) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let text = Utf8Bytes::from(envelope::request(&RequestId::Int(id), call.method, call.params));
        if text.len() > MAX_MESSAGE_BYTES {
            return Err(Error::RequestTooLarge { method: call.method.to_owned(), bytes: text.len() });
        }
        // The process is one that is acknowledged, from before its first output.
        let follow = match &starts {
            Some(process_id) if self.acks.pace().is_some() => Some(acks::message(process_id, 0).into()),
            _ => None,
        };
        let slot = self.outgoing.reserve().await.map_err(|_| self.table.lost())?;
        self.table.open(|open| {
            also(open)?;
            let request = Request {
                method: call.method.into(),
                replay: call.replay,
                text: (call.replay != Replay::Forget).then(|| text.clone()),
                starts,
                state: Sending::Queued,
                then,
            };
            open.expect(id, request);
            Ok(())
        })?;
        slot.send(Message { id, text, follow });
        Ok(())
    }
}

/// Which watches are made anew on the next connection. It does not keep the session.
#[derive(Debug, Clone)]
pub(crate) struct Watching {
    table: Arc<Table>,
}

impl Watching {
    /// One was made; its notifications are passed on as they come.
    pub(crate) fn made(&self, id: WatchId, method: Method, params: Box<RawValue>) {
        self.table.find(|open| {
            open.watches.add(id, Watched { method: method.name(), params, changes: None });
            Some(())
        });
    }

    /// One has ended.
    pub(crate) fn ended(&self, id: &WatchId) {
        self.table.find(|open| open.watches.remove(id));
    }
}

/// Where the notifications of a process that is about to start go.
pub(super) struct Routed {
    pub(super) process_id: Arc<str>,
    pub(super) events: Option<EventSender>,
    pub(super) progress: Arc<acks::Progress>,
}

impl Routed {
    fn register(self, open: &mut Open, metrics: &Metrics, tty: bool) -> Result<(), Error> {
        open.routes.add(self.process_id, self.events, self.progress, || metrics.launch(tty))
    }
}
