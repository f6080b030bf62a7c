//! The handles of one connection: `fs/open`, `fs/readBlock`, `fs/writeBlock`, `fs/close`.
//!
//! Each handle has a queue and a task that works it off, so what is sent to one handle happens in the order received,
//! and no handle waits for another. Handles end with the connection; a replacement that was not closed leaves nothing.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sidecar_protocol::error::NOT_FOUND;
use sidecar_protocol::frame::BlockResponse;
use sidecar_protocol::fs::OpenMode;
use sidecar_protocol::{ErrorData, ErrorKind, MAX_HANDLE_ID_BYTES, RequestId, RpcError, WirePath, frame};
use sidecar_sandbox::Request;
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;

use super::{Attributes, Confined, FsError, Opened};
use crate::connection::outbox::{Made, Outbox, Response, Source};
use crate::relay::Relay;
use crate::server::Shared;

/// The open files of one connection.
#[derive(Debug)]
pub(crate) struct Handles {
    shared: Arc<Shared>,
    table: Table,
    tasks: TaskTracker,
    /// Tells a handle from an earlier one of the same id.
    opened: u64,
}

type Table = Arc<Mutex<HashMap<String, Handle>>>;

/// The near end of a handle's queue. It is bounded by the connection's requests in flight.
#[derive(Debug)]
struct Handle {
    number: u64,
    queue: mpsc::UnboundedSender<Order>,
}

#[derive(Debug)]
enum Order {
    /// The response goes to that outbox, once there is room for it.
    Read {
        id: RequestId,
        offset: u64,
        len: usize,
        outbox: Outbox,
        reply: Reply<Response>,
    },
    Write {
        offset: u64,
        block: Vec<u8>,
        reply: Reply<()>,
    },
    Close {
        discard: bool,
        reply: Reply<()>,
    },
}

type Reply<T> = oneshot::Sender<Result<T, RpcError>>;

impl Handles {
    pub(crate) fn new(shared: Arc<Shared>) -> Handles {
        Handles { shared, table: Table::default(), tasks: TaskTracker::new(), opened: 0 }
    }

    /// Takes the id at once, so that what the client sends next finds it, and opens the file.
    pub(crate) fn open(
        &mut self,
        id: &str,
        path: WirePath,
        mode: OpenMode,
        attributes: Attributes,
        request: Request,
    ) -> Result<impl Future<Output = Result<(), RpcError>> + Send + use<>, RpcError> {
        if id.is_empty() || id.len() > MAX_HANDLE_ID_BYTES {
            let message = format!("handleId must have 1 to {MAX_HANDLE_ID_BYTES} bytes: {id:?}");
            return Err(RpcError::invalid_params(message));
        }
        let (queue, orders) = mpsc::unbounded_channel();
        self.opened += 1;
        let limit = self.shared.config.limits.handles;
        {
            let mut table = lock(&self.table);
            let open = table.len();
            match table.entry(id.to_owned()) {
                Entry::Occupied(_) => {
                    return Err(RpcError::invalid_request(format!("handle {id:?} already exists")));
                }
                Entry::Vacant(_) if open >= limit => {
                    let message =
                        format!("more than {limit} open handles on this connection (limits.handles)");
                    return Err(RpcError::limit("limits.handles", message));
                }
                Entry::Vacant(slot) => slot.insert(Handle { number: self.opened, queue }),
            };
        }
        let (reply, answer) = oneshot::channel();
        let worker = Worker {
            shared: self.shared.clone(),
            table: self.table.clone(),
            id: id.to_owned(),
            number: self.opened,
            request,
        };
        self.tasks.spawn(worker.serve(path, (mode, attributes), reply, orders));
        let lost = unknown(id);
        Ok(async move { answer.await.unwrap_or(Err(lost)) })
    }

    /// The response to a request, with up to `len` bytes from `offset`, once there is room for it.
    pub(crate) fn read(
        &self,
        handle_id: &str,
        (offset, len): (u64, usize),
        id: RequestId,
        outbox: Outbox,
    ) -> impl Future<Output = Result<Response, RpcError>> + Send + use<> {
        self.order(handle_id, move |reply| Order::Read { id, offset, len, outbox, reply })
    }

    pub(crate) fn write(
        &self,
        id: &str,
        offset: u64,
        block: Vec<u8>,
    ) -> impl Future<Output = Result<(), RpcError>> + Send + use<> {
        self.order(id, move |reply| Order::Write { offset, block, reply })
    }

    /// The id is free at once; a handle that is not there is closed already.
    /// `discard`: what was written is given up.
    pub(crate) fn close(
        &self,
        id: &str,
        discard: bool,
    ) -> impl Future<Output = Result<(), RpcError>> + Send + use<> {
        let (reply, answer) = oneshot::channel();
        if let Some(handle) = lock(&self.table).remove(id) {
            // A worker that is gone has told why it could not open the file.
            let _ = handle.queue.send(Order::Close { discard, reply });
        }
        async move { answer.await.unwrap_or(Ok(())) }
    }

    fn order<T: Send + 'static, F: FnOnce(Reply<T>) -> Order>(
        &self,
        id: &str,
        order: F,
    ) -> impl Future<Output = Result<T, RpcError>> + Send + use<T, F> {
        let (reply, answer) = oneshot::channel();
        if let Some(handle) = lock(&self.table).get(id) {
            // A worker that has ended drops the reply.
            let _ = handle.queue.send(order(reply));
        }
        let unknown = unknown(id);
        async move { answer.await.unwrap_or(Err(unknown)) }
    }

    /// Ends every handle; what was received before happens first. Returns when the last one is gone.
    pub(crate) async fn end(&self) {
        lock(&self.table).clear();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// The far end of a handle's queue.
struct Worker {
    shared: Arc<Shared>,
    table: Table,
    id: String,
    number: u64,
    request: Request,
}

impl Worker {
    async fn serve(
        self,
        path: WirePath,
        (mode, attributes): (OpenMode, Attributes),
        reply: Reply<()>,
        mut orders: mpsc::UnboundedReceiver<Order>,
    ) {
        let spelling = path.spelling();
        let open = move |confined: &Confined| {
            let opened = Opened::open(confined, path.as_path(), mode, attributes);
            let prepared = confined.prepared().clone();
            opened
                .map(|opened| (opened, prepared))
                .map_err(|error| error.into_rpc(spelling, confined.prepared()))
        };
        let (mut opened, prepared) = match self.shared.files.run(self.request.clone(), open).await {
            Ok(opened) => opened,
            Err(error) => {
                self.forget();
                let _ = reply.send(Err(error));
                return;
            }
        };
        // Whoever waits for an answer may be gone; then the connection is ending.
        let _ = reply.send(Ok(()));
        let rpc = |error: FsError| error.into_rpc(spelling, &prepared);
        while let Some(order) = orders.recv().await {
            let done = match order {
                Order::Read { id, offset, len, outbox, mut reply } => {
                    let bytes = frame::response_bytes(&id, len);
                    // What comes after it waits as well: the order is that of the requests.
                    let room = tokio::select! {
                        Some(room) = outbox.room(Source::Files, bytes) => room,
                        // Nobody waits for the answer any more.
                        () = reply.closed() => continue,
                    };
                    let response = BlockResponse::new(self.shared.spare.take(bytes), &id, len);
                    let read = blocking(&self.shared.relay, opened, move |opened| {
                        opened.read(response, offset, len)
                    })
                    .await;
                    read.map(|(opened, block)| {
                        let response = block.map_err(rpc).and_then(|text| match room.put(text) {
                            Made::Response(response) => Ok(response),
                            Made::Larger(_) => Err(RpcError::internal("the block is larger than its room")),
                        });
                        (opened, drop(reply.send(response)))
                    })
                }
                Order::Write { offset, block, reply } => {
                    let written =
                        blocking(&self.shared.relay, opened, move |opened| opened.write(offset, &block))
                            .await;
                    written.map(|(opened, written)| (opened, drop(reply.send(written.map_err(rpc)))))
                }
                Order::Close { discard: true, reply } => {
                    let _ = tokio::task::spawn_blocking(move || drop(opened)).await;
                    let _ = reply.send(Ok(()));
                    return;
                }
                Order::Close { discard: false, reply } => {
                    let close = move |confined: &Confined| {
                        let closed = opened.close(confined);
                        closed.map_err(|error| error.into_rpc(spelling, confined.prepared()))
                    };
                    let _ = reply.send(self.shared.files.run(self.request, close).await);
                    return;
                }
            };
            match done {
                Some((same, ())) => opened = same,
                None => return self.lose(orders).await,
            }
        }
        // The connection has ended. To remove a file may take its time.
        let _ = tokio::task::spawn_blocking(move || drop(opened)).await;
    }

    /// An operation has panicked and the file went with it. A close must not look as if it had taken effect.
    async fn lose(&self, mut orders: mpsc::UnboundedReceiver<Order>) {
        self.forget();
        orders.close();
        while let Some(order) = orders.recv().await {
            if let Order::Close { reply, .. } = order {
                let _ = reply.send(Err(RpcError::internal(format!("handle {:?} was lost", self.id))));
            }
        }
    }

    /// The id may belong to a newer handle by now.
    fn forget(&self) {
        let mut table = lock(&self.table);
        if table.get(&self.id).is_some_and(|handle| handle.number == self.number) {
            table.remove(&self.id);
        }
    }
}

/// `None`: the operation has panicked, and the file went with it.
async fn blocking<T: Send + 'static>(
    relay: &Relay,
    mut opened: Opened,
    operation: impl FnOnce(&mut Opened) -> T + Send + 'static,
) -> Option<(Opened, T)> {
    let run = tokio::task::spawn_blocking(move || {
        let result = operation(&mut opened);
        (opened, result)
    });
    relay.carry(run).await.ok()
}

fn lock(table: &Table) -> MutexGuard<'_, HashMap<String, Handle>> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unknown(id: &str) -> RpcError {
    let data = ErrorData { kind: Some(ErrorKind::NotFound), ..ErrorData::default() };
    RpcError::new(NOT_FOUND, format!("unknown handle {id:?}")).with_data(&data)
}
