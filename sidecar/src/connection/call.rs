//! A request that is being served, and how many there may be of them.

use std::sync::Arc;

use serde::Serialize;
use sidecar_protocol::{RequestId, RpcError, envelope};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::outbox::Outbox;
use super::tally::Tally;
use crate::config::Limits;

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

    /// Queues the response; what is sent after that comes after it on the wire.
    pub(crate) async fn answer<T: Serialize>(self, outcome: Result<T, RpcError>) {
        let encoded = outcome.map(|result| envelope::response(&self.id, &result));
        self.answer_encoded(encoded).await;
    }

    /// The same with a response that is encoded already.
    pub(crate) async fn answer_encoded(self, outcome: Result<String, RpcError>) {
        self.tally.answered(outcome.as_ref().map(drop));
        let text = outcome.unwrap_or_else(|error| envelope::error_response(&self.id, &error));
        self.outbox.respond(text).await;
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
