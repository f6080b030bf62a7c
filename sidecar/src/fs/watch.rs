//! `fs/watch`, `fs/watchMissing`, `fs/unwatch`: the watches of one connection.
//!
//! One task owns them all, with one inotify instance that is made at the first watch. It does one thing at a time:
//! takes an order, reads events, has directories watched on a confined thread, or tells what has changed. Nobody waits
//! for it but whoever asks for a watch, and it never waits for the client: what changes meanwhile is collected.

mod changes;
mod events;
mod place;
mod registry;
mod task;

use std::sync::Arc;

use sidecar_protocol::fs::{WatchId, WatchMissingParams, WatchResult};
use sidecar_protocol::{RpcError, WirePath};
use sidecar_sandbox::Request;
use tokio::sync::{mpsc, oneshot};

use self::task::{Order, Task};
use super::Confined;
use crate::server::Shared;

/// Paths of one `fs/watchMissing`.
const MAX_PATHS: usize = 256;

/// What is watched.
#[derive(Debug)]
pub(crate) enum Subject {
    /// Everything below a directory.
    Tree(WirePath),
    /// Whether paths are there.
    Missing(Arc<WatchMissingParams>),
}

/// The near end of the task. The task ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Watches {
    shared: Arc<Shared>,
    notifications: mpsc::Sender<Vec<u8>>,
    orders: Option<mpsc::UnboundedSender<Order>>,
    asked: u64,
}

/// A watch that is asked for. Nothing is told of it before [`Started::told`].
#[derive(Debug)]
pub(crate) struct Started {
    number: u64,
    orders: mpsc::UnboundedSender<Order>,
    answer: oneshot::Receiver<Result<WatchResult, RpcError>>,
}

impl Watches {
    pub(crate) fn new(shared: Arc<Shared>, notifications: mpsc::Sender<Vec<u8>>) -> Watches {
        Watches { shared, notifications, orders: None, asked: 0 }
    }

    /// Asks for a watch.
    pub(crate) fn add(
        &mut self,
        id: WatchId,
        subject: Subject,
        request: Request,
    ) -> Result<Started, RpcError> {
        if let Subject::Missing(paths) = &subject
            && paths.missing.len() + paths.present.len() > MAX_PATHS
        {
            return Err(RpcError::invalid_params(format!("more than {MAX_PATHS} paths in one watch")));
        }
        let orders = self.orders().clone();
        self.asked += 1;
        let number = self.asked;
        let (reply, answer) = oneshot::channel();
        // A task that is gone drops the reply.
        let _ = orders.send(Order::Add { number, id, subject, request, reply });
        Ok(Started { number, orders, answer })
    }

    /// Ends a watch; one that is not there has ended already.
    pub(crate) fn remove(&self, id: WatchId) {
        if let Some(orders) = &self.orders {
            let _ = orders.send(Order::Remove(id));
        }
    }

    fn orders(&mut self) -> &mpsc::UnboundedSender<Order> {
        self.orders.get_or_insert_with(|| {
            let (orders, queue) = mpsc::unbounded_channel();
            tokio::spawn(Task::new(self.shared.clone(), self.notifications.clone()).run(queue));
            orders
        })
    }
}

impl Started {
    /// Whether it is watched.
    pub(crate) async fn answer(&mut self) -> Result<WatchResult, RpcError> {
        (&mut self.answer).await.unwrap_or_else(|_| Err(RpcError::internal("the watch was lost")))
    }

    /// The client has its answer: from now on it can be told of changes.
    pub(crate) fn told(self) {
        let _ = self.orders.send(Order::Told(self.number));
    }
}
