//! A request that is being served, and how many there may be of them.

use std::sync::Arc;

use futures_util::FutureExt as _;
use serde::Serialize;
use sidecar_protocol::{RequestId, RpcError, envelope};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::outbox::{Made, Outbox, Response, Room, Source};
use super::tally::Tally;
use crate::config::Limits;

/// The room that a response of unknown size begins with: most are smaller, and so many of them are made at once.
const ROOM: usize = 16 << 10;

/// A request to be answered once. What it takes of the limits goes back with it.
#[derive(Debug)]
pub(crate) struct Call {
    id: RequestId,
    outbox: Outbox,
    tally: Tally,
    _slot: Slot,
}

impl Call {
    pub(super) fn new(id: RequestId, outbox: Outbox, tally: Tally, slot: Slot) -> Call {
        Call { id, outbox, tally, _slot: slot }
    }

    /// The request's id, for a response that is encoded where it is made.
    pub(crate) fn id(&self) -> RequestId {
        self.id.clone()
    }

    /// Where its response goes.
    pub(crate) fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// Queues the response; what is sent after that comes after it on the wire. It waits in memory until there is room, so
    /// it is to be small.
    pub(crate) async fn answer<T: Serialize>(self, outcome: Result<T, RpcError>) {
        self.tally.answered(outcome.as_ref().map(drop));
        let text = match outcome {
            Ok(result) => envelope::response(&self.id, &result),
            Err(error) => envelope::error_response(&self.id, &error),
        };
        self.outbox.respond(text).await;
    }

    /// The same at once, by a task of its own where there is no room now.
    pub(crate) fn answer_now<T: Serialize + Send + 'static>(self, outcome: Result<T, RpcError>) {
        let mut answer = Box::pin(self.answer(outcome));
        if answer.as_mut().now_or_never().is_none() {
            tokio::spawn(answer);
        }
    }

    /// The same with a response that has its room.
    pub(crate) async fn answer_in_room(self, outcome: Result<Response, RpcError>) {
        match outcome {
            Ok(response) => {
                self.tally.answered(Ok(()));
                self.outbox.queue(response);
            }
            Err(error) => self.answer::<()>(Err(error)).await,
        }
    }

    /// The same with a response of any size, which is made once there is room for it. `make` is called again where the
    /// room was too little.
    pub(crate) async fn answer_when_there_is_room<F>(self, source: Source, make: impl Fn(Room) -> F)
    where
        F: Future<Output = Result<Made, RpcError>>,
    {
        let mut bytes = ROOM;
        // Without a connection nobody waits for the answer.
        while let Some(room) = self.outbox.room(source, bytes).await {
            match make(room).await {
                // What grows is made again a few times, not for ever.
                Ok(Made::Larger(needed)) => bytes = needed.max(bytes.saturating_mul(2)),
                Ok(Made::Response(response)) => return self.answer_in_room(Ok(response)).await,
                Err(error) => return self.answer_in_room(Err(error)).await,
            }
        }
    }
}

/// The requests in flight on one connection, by number and by bytes: each keeps its params in memory.
#[derive(Debug)]
pub(crate) struct InFlight {
    requests: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
}

/// One request's share.
#[derive(Debug)]
pub(crate) struct Slot {
    _request: OwnedSemaphorePermit,
    _bytes: OwnedSemaphorePermit,
}

impl InFlight {
    pub(crate) fn new(limits: &Limits) -> InFlight {
        InFlight {
            requests: Arc::new(Semaphore::new(limits.requests)),
            bytes: Arc::new(Semaphore::new(limits.request_bytes)),
        }
    }

    /// A share for a request of that many bytes.
    pub(crate) fn admit(&self, bytes: usize) -> Result<Slot, RpcError> {
        let full = |key| {
            let message =
                format!("too many requests in flight on this connection ({key}); wait for responses");
            RpcError::limit(key, message)
        };
        let request = self.requests.clone().try_acquire_owned().map_err(|_| full("limits.requests"))?;
        let bytes = u32::try_from(bytes).map_err(|_| full("limits.requestBytes"))?;
        let bytes =
            self.bytes.clone().try_acquire_many_owned(bytes).map_err(|_| full("limits.requestBytes"))?;
        Ok(Slot { _request: request, _bytes: bytes })
    }
}
