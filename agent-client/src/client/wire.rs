//! The callers' side of a connection: it numbers requests, registers them and waits for their answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use serde::Serialize;
use serde::de::DeserializeOwned;
use sidecar_protocol::fs::{WatchId, WatchParams, WatchResult};
use sidecar_protocol::process::{StartParams, StartResult};
use sidecar_protocol::{MAX_MESSAGE_BYTES, Method, RequestId, envelope};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, oneshot};
use tokio_tungstenite::WebSocketStream;

use super::link::{self, Outgoing};
use super::table::{Open, Outcome, Table};
use crate::error::Error;
use crate::events::EventSender;
use crate::filesystem::watch::{self, Feed};

/// Messages that wait for the socket, at most; a further request waits.
const OUTGOING: usize = 64;

/// Clones share the connection, which closes when the last one is dropped.
#[derive(Debug, Clone)]
pub(crate) struct Wire {
    table: Arc<Table>,
    outgoing: mpsc::Sender<Outgoing>,
    next_id: Arc<AtomicI64>,
}

impl Wire {
    /// Starts the connection's task.
    pub(super) fn spawn<S>(socket: WebSocketStream<S>) -> Self
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let table = Arc::new(Table::default());
        let (outgoing, messages) = mpsc::channel(OUTGOING);
        tokio::spawn(link::run(socket, messages, Arc::clone(&table)));
        Self { table, outgoing, next_id: Arc::new(AtomicI64::new(1)) }
    }

    pub(super) async fn request<P, R>(&self, method: Method, params: &P) -> Result<R, Error>
    where
        P: Serialize,
        R: DeserializeOwned,
    {
        let answer = self.send(method, params, |_| Ok(())).await?;
        self.answer(method, answer).await
    }

    pub(super) async fn start(
        &self,
        params: &StartParams,
        events: EventSender,
    ) -> Result<StartResult, Error> {
        let id = &params.process_id;
        let answer = self.send(Method::ProcessStart, params, |open| open.route(id, events)).await?;
        let result = self.answer(Method::ProcessStart, answer).await;
        if result.is_err() {
            self.table.unroute(id);
        }
        result
    }

    /// Its changes are routed before the request is sent.
    pub(super) async fn watch(&self, params: &WatchParams) -> Result<Feed, Error> {
        let (sender, feed) = watch::feed();
        let id = params.watch_id.clone();
        let method = Method::FsWatch;
        let answer = self.send(method, params, |open| {
            open.watch(id, sender);
            Ok(())
        });
        let result: Result<WatchResult, _> = self.answer(method, answer.await?).await;
        if result.is_err() {
            self.table.unwatch(&params.watch_id);
        }
        result.map(|_| feed)
    }

    pub(super) fn unwatch(&self, id: &WatchId) {
        self.table.unwatch(id);
    }

    pub(super) async fn notify<P: Serialize>(&self, method: &str, params: &P) -> Result<(), Error> {
        let text = envelope::notification(method, params);
        self.outgoing.send(Outgoing::Text(text)).await.map_err(|_| self.table.lost())
    }

    pub(super) async fn close(self) {
        if self.outgoing.send(Outgoing::Close).await.is_ok() {
            self.outgoing.closed().await;
        }
    }

    /// Registers a request, and what `also` registers with it, and hands it to the writer, in one step: a caller that
    /// is cancelled leaves nothing behind that no answer would clear.
    async fn send<P: Serialize>(
        &self,
        method: Method,
        params: &P,
        also: impl FnOnce(&mut Open) -> Result<(), Error>,
    ) -> Result<oneshot::Receiver<Outcome>, Error> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let text = envelope::request(&RequestId::Int(id), method.name(), params);
        if text.len() > MAX_MESSAGE_BYTES {
            return Err(Error::RequestTooLarge { method: method.name(), bytes: text.len() });
        }
        let slot = self.outgoing.reserve().await.map_err(|_| self.table.lost())?;
        let (sender, answer) = oneshot::channel();
        self.table.open(|open| {
            also(open)?;
            open.expect(id, sender);
            Ok(())
        })?;
        slot.send(Outgoing::Text(text));
        Ok(answer)
    }

    async fn answer<R: DeserializeOwned>(
        &self,
        method: Method,
        answer: oneshot::Receiver<Outcome>,
    ) -> Result<R, Error> {
        let method = method.name();
        let outcome = answer.await.map_err(|_| self.table.lost())?;
        let result = outcome.map_err(|error| Error::Rpc { method, error })?;
        serde_json::from_str(result.get()).map_err(|cause| Error::Answer { method, cause })
    }
}
