//! The task that owns the watches of one connection.

mod placing;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::inotify::ReadFlags;
use sidecar_protocol::fs::{ChangedNotification, Watch as Told, WatchId, WatchResult};
use sidecar_protocol::{RpcError, WirePath, envelope, method};
use sidecar_sandbox::Request;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::super::temp::is_temp_name;
use super::Subject;
use super::changes::Changes;
use super::events::{self, Event, Inotify};
use super::registry::Registry;
use crate::server::Shared;

/// What the task is asked for.
#[derive(Debug)]
pub(super) enum Order {
    Add {
        number: u64,
        id: WatchId,
        subject: Subject,
        request: Request,
        reply: oneshot::Sender<Result<WatchResult, RpcError>>,
    },
    /// The client has the answer.
    Told(u64),
    Remove(WatchId),
}

/// All watches of one connection.
#[derive(Debug)]
pub(super) struct Task {
    shared: Arc<Shared>,
    notifications: mpsc::Sender<Vec<u8>>,
    inotify: Option<Inotify>,
    /// By the order in which they were asked for.
    watches: BTreeMap<u64, Watch>,
    directories: Registry,
}

#[derive(Debug)]
struct Watch {
    id: WatchId,
    subject: Subject,
    request: Request,
    /// Whether the client knows that it is there.
    is_told: bool,
    changes: Changes,
    /// A path has appeared, or gone; for [`Subject::Missing`].
    has_changed: bool,
}

impl Watch {
    /// Whether there is something to tell.
    fn is_ready(&self, now: Instant) -> bool {
        self.is_told
            && match self.subject {
                Subject::Missing(_) => self.has_changed,
                Subject::Tree(_) => self.changes.due().is_some_and(|due| due <= now),
            }
    }

    /// Until when nothing is to be done.
    fn waits_until(&self, now: Instant) -> Option<Instant> {
        match self.subject {
            Subject::Missing(_) => self.changes.due(),
            Subject::Tree(_) => self.changes.due().filter(|due| self.is_told && *due > now),
        }
    }
}

impl Task {
    pub(super) fn new(shared: Arc<Shared>, notifications: mpsc::Sender<Vec<u8>>) -> Task {
        let (watches, directories) = (BTreeMap::new(), Registry::default());
        Task { shared, notifications, inotify: None, watches, directories }
    }

    /// Serves until nobody can give orders any more, or nobody can be told.
    pub(super) async fn run(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        let lane = self.notifications.clone();
        loop {
            let now = Instant::now();
            let ready = self.watches.iter().find(|(_, watch)| watch.is_ready(now)).map(|(number, _)| *number);
            let due = self.watches.values().filter_map(|watch| watch.waits_until(now)).min();
            tokio::select! {
                order = orders.recv() => match order {
                    Some(order) => self.obey(order).await,
                    None => return,
                },
                events = events::next(self.inotify.as_ref()) => self.take(events).await,
                () = tokio::time::sleep_until(due.unwrap_or(now)), if due.is_some() => self.look_again().await,
                // A full lane delays what is told, and nothing else: changes are collected meanwhile.
                permit = lane.reserve(), if ready.is_some() => match (permit, ready) {
                    (Ok(permit), Some(number)) => permit.send(self.tell(number).into_bytes()),
                    _ => return,
                },
            }
        }
    }

    async fn obey(&mut self, order: Order) {
        match order {
            Order::Add { number, id, subject, request, reply } => {
                let added = self.add(number, id, subject, request).await;
                if !matches!(added, Ok(WatchResult { watching: true })) {
                    self.end(number);
                }
                // Whoever asked may be gone; then the connection is ending.
                let _ = reply.send(added);
            }
            Order::Told(number) => {
                if let Some(watch) = self.watches.get_mut(&number) {
                    watch.is_told = true;
                }
            }
            Order::Remove(id) => {
                let found = self.watches.iter().find(|(_, watch)| watch.id == id).map(|(number, _)| *number);
                if let Some(number) = found {
                    self.end(number);
                }
            }
        }
    }

    async fn add(
        &mut self,
        number: u64,
        id: WatchId,
        subject: Subject,
        request: Request,
    ) -> Result<WatchResult, RpcError> {
        if self.watches.values().any(|watch| watch.id == id) {
            return Err(RpcError::invalid_request(format!("watch {} already exists", name(&id))));
        }
        let limits = &self.shared.config.limits;
        let limit = limits.watches;
        if self.watches.len() >= limit {
            let message = format!("more than {limit} watches on this connection (limits.watches)");
            return Err(RpcError::limit("limits.watches", message));
        }
        if self.inotify.is_none() {
            match (Inotify::new(), &subject) {
                (Ok(made), _) => self.inotify = Some(made),
                (Err(error), Subject::Tree(_)) => return Err(error),
                // It is a hint to look again, and its client can do without.
                (Err(_), Subject::Missing(_)) => return Ok(WatchResult { watching: false }),
            }
        }
        let watch = Watch {
            id,
            subject,
            request,
            is_told: false,
            changes: Changes::new(limits.watch_events),
            has_changed: false,
        };
        let is_tree = matches!(watch.subject, Subject::Tree(_));
        self.watches.insert(number, watch);
        if is_tree {
            let placed = self.place(number, Path::new("")).await?;
            let shortage = placed.shortage;
            self.directories.add(number, placed.directories);
            if let Some(shortage) = shortage {
                return Err(shortage.into_rpc(self.shared.config.limits.watch_directories));
            }
        } else {
            self.look(number).await?;
        }
        Ok(WatchResult { watching: true })
    }

    async fn take(&mut self, events: Vec<Event>) {
        let mut grown = BTreeSet::new();
        for event in events {
            if event.flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                for (number, watch) in &mut self.watches {
                    watch.changes.overflow();
                    // A directory that has appeared may be among what was lost.
                    grown.insert((*number, PathBuf::new()));
                }
                continue;
            }
            if event.flags.contains(ReadFlags::IGNORED) {
                self.directories.forget(event.directory);
                continue;
            }
            for (number, dir) in self.directories.watchers(event.directory) {
                let Some(watch) = self.watches.get_mut(&number) else { continue };
                match (&watch.subject, &event.name) {
                    (Subject::Missing(_), _) => watch.changes.touch(),
                    // What the server writes beside a file, until it has the file's name.
                    (Subject::Tree(_), Some(name))
                        if is_temp_name(name.as_os_str()) && !event.flags.contains(ReadFlags::ISDIR) => {}
                    (Subject::Tree(_), Some(name)) => {
                        let path = dir.join(name);
                        watch.changes.note(&path);
                        if event.is_directory_gone() {
                            self.release(number, |_, below| below.starts_with(&path));
                        } else if event.is_directory_new() {
                            grown.insert((number, path));
                        }
                    }
                    // The directory itself: of all but the root, its parent tells.
                    (Subject::Tree(_), None) if dir.as_os_str().is_empty() => {
                        watch.changes.note(&dir);
                        if event.flags.contains(ReadFlags::MOVE_SELF) {
                            self.release(number, |_, _| true);
                        }
                    }
                    (Subject::Tree(_), None) => {}
                }
            }
        }
        for (number, path) in grown {
            self.grow(number, &path).await;
        }
    }

    /// The notification of a watch that has something to tell; `fs/watchMissing` has nothing more to tell after it.
    fn tell(&mut self, number: u64) -> String {
        let Some(watch) = self.watches.get_mut(&number) else { return String::new() };
        let watch_id = watch.id.clone();
        match &watch.subject {
            Subject::Missing(_) => {
                self.end(number);
                envelope::notification(method::FS_MISSING_CHANGED, &Told { watch_id })
            }
            Subject::Tree(root) => {
                let (paths, overflow) = watch.changes.take();
                if overflow {
                    self.shared.metrics.requests.rejected("watchEvents");
                }
                let paths = paths.iter().map(|path| absolute(root, path)).collect();
                envelope::notification(method::FS_CHANGED, &ChangedNotification { watch_id, paths, overflow })
            }
        }
    }

    fn end(&mut self, number: u64) {
        self.watches.remove(&number);
        self.release(number, |_, _| true);
    }

    fn release(&mut self, number: u64, which: impl Fn(i32, &Path) -> bool) {
        let inotify = self.inotify.as_ref().map(|inotify| inotify.instance().as_ref());
        self.directories.release(inotify, number, which);
    }
}

/// The root itself where `path` is empty.
fn absolute(root: &WirePath, path: &Path) -> WirePath {
    let path =
        if path.as_os_str().is_empty() { root.as_path().to_owned() } else { root.as_path().join(path) };
    WirePath::new(path, root.spelling())
}

fn name(id: &WatchId) -> String {
    match id {
        WatchId::Number(number) => number.to_string(),
        WatchId::Text(text) => format!("{text:?}"),
    }
}
