//! What waits to be sent on one connection, in two lanes: responses first, then notifications.
//!
//! Both are bounded: responses by the bytes that wait, notifications by their number. A full notification lane is the
//! back-pressure that reaches the process whose output it is; it never delays a response. It knows no transport.
//!
//! A response that may be large has its [`Room`] before it is made, so that none waits in memory for a reader that does
//! not come. What is read from files has a half of the room to itself: it may wait for a disk, which delays nothing else.
//!
//! A probe asks the peer for a sign of life: by a ping, or by what takes its place.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sidecar_protocol::frame::FileResponse;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Frames of output that may wait, each of at most 64 KiB payload: a part of what a stalled reader costs. More of them make no
/// flood faster.
const NOTIFICATIONS: usize = 2;

/// Why a connection is closed, for the peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Close {
    /// A WebSocket close code.
    pub(crate) code: u16,
    /// For people.
    pub(crate) reason: String,
}

impl Close {
    /// 1002: the client broke the protocol.
    pub(crate) fn protocol(reason: impl Into<String>) -> Close {
        Close { code: 1002, reason: reason.into() }
    }

    /// 1000: nothing is left to be said.
    pub(crate) fn normal() -> Close {
        Close { code: 1000, reason: String::new() }
    }

    /// 1008: another connection has the session now.
    pub(crate) fn resumed_elsewhere() -> Close {
        Close { code: 1008, reason: String::from("the session was resumed on another connection") }
    }

    /// 1001: the server goes away.
    pub(crate) fn going_away() -> Close {
        Close { code: 1001, reason: String::from("the sidecar is shutting down") }
    }
}

/// A message, in UTF-8.
#[derive(Debug)]
pub(crate) enum Text {
    /// All of it.
    Whole(Vec<u8>),
    /// It is made while it is sent.
    File(Box<FileResponse>),
}

impl Text {
    /// In bytes.
    fn len(&self) -> usize {
        match self {
            Text::Whole(text) => text.len(),
            Text::File(response) => response.len(),
        }
    }
}

impl From<String> for Text {
    fn from(text: String) -> Text {
        Text::Whole(text.into())
    }
}

impl From<Vec<u8>> for Text {
    fn from(text: Vec<u8>) -> Text {
        Text::Whole(text)
    }
}

impl From<FileResponse> for Text {
    fn from(response: FileResponse) -> Text {
        Text::File(response.into())
    }
}

/// Something to send.
#[derive(Debug)]
pub(crate) enum Item {
    /// A message. The permit goes back when it has been sent.
    Message(Text, Option<OwnedSemaphorePermit>),
    /// The peer is to show that it lives.
    Probe,
    /// The last thing to send.
    Close(Close),
}

impl Item {
    fn response(Response { text, permit }: Response) -> Item {
        Item::Message(text, Some(permit))
    }
}

/// A response, and its share of what may wait.
#[derive(Debug)]
pub(crate) struct Response {
    text: Text,
    permit: OwnedSemaphorePermit,
}

/// What a response is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// Files and directories.
    Files,
    /// What the server has in memory.
    Memory,
}

/// Room for one response.
#[derive(Debug)]
pub(crate) struct Room {
    credit: Credit,
    permit: OwnedSemaphorePermit,
}

/// What was made of a response that is put into its room.
#[derive(Debug)]
pub(crate) enum Made {
    Response(Response),
    /// It has that many bytes, for which there is no room yet. It is to be made again.
    Larger(usize),
}

/// The credit of each [`Source`].
#[derive(Debug, Clone)]
struct Credits {
    files: Credit,
    memory: Credit,
}

impl Credits {
    fn new(bytes: usize) -> Credits {
        Credits { files: Credit::new(bytes / 2), memory: Credit::new(bytes - bytes / 2) }
    }

    fn of(&self, source: Source) -> &Credit {
        match source {
            Source::Files => &self.files,
            Source::Memory => &self.memory,
        }
    }
}

/// Bytes of responses that may wait; a single larger one takes all of it, and waits alone.
#[derive(Debug, Clone)]
struct Credit {
    free: Arc<Semaphore>,
    all: u32,
}

impl Credit {
    fn new(bytes: usize) -> Credit {
        // The config's bound is below both of these.
        let all = u32::try_from(bytes).unwrap_or(u32::MAX);
        Credit { free: Arc::new(Semaphore::new(bytes.min(Semaphore::MAX_PERMITS))), all }
    }

    /// What a response of that many bytes takes.
    fn share(&self, bytes: usize) -> u32 {
        u32::try_from(bytes).unwrap_or(self.all).min(self.all)
    }

    /// `None`: the connection has ended.
    async fn room(&self, bytes: usize) -> Option<Room> {
        let permit = self.free.clone().acquire_many_owned(self.share(bytes)).await.ok()?;
        Some(Room { credit: self.clone(), permit })
    }
}

impl Room {
    /// Whether it has room for that many bytes: its own, or what is free just now. It never waits: while it did, it would
    /// keep from others what they wait for.
    pub(crate) fn holds(&mut self, bytes: usize) -> bool {
        let wanted = self.credit.share(bytes) as usize;
        let more = u32::try_from(wanted.saturating_sub(self.permit.num_permits())).unwrap_or(u32::MAX);
        match self.credit.free.clone().try_acquire_many_owned(more) {
            Ok(more) => {
                self.permit.merge(more);
                true
            }
            Err(_) => false,
        }
    }

    /// Puts a response there. What it does not need is others'.
    pub(crate) fn put(mut self, text: impl Into<Text>) -> Made {
        let text = text.into();
        if !self.holds(text.len()) {
            return Made::Larger(text.len());
        }
        let spare = self.permit.num_permits() - self.credit.share(text.len()) as usize;
        drop(self.permit.split(spare));
        Made::Response(Response { text, permit: self.permit })
    }
}

/// The near end. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Outbox {
    /// Boxed, since a channel has places for many, of which each connection uses few.
    responses: mpsc::UnboundedSender<Box<Response>>,
    credits: Credits,
    notifications: mpsc::Sender<Vec<u8>>,
    close: Arc<Mutex<Option<Close>>>,
    closing: CancellationToken,
    ended: CancellationToken,
    probes: watch::Sender<()>,
    heard: Heard,
}

/// Signs of life of the peer, and who waits for one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Heard(Arc<Waiters>);

#[derive(Debug, Default)]
struct Waiters {
    answered: Notify,
    taken: AtomicU64,
}

impl Heard {
    /// It has answered a probe.
    pub(crate) fn answered(&self) {
        self.0.answered.notify_waiters();
    }

    /// It was full, and has taken bytes after all. It may have made the room before it was asked, and then hung up.
    pub(crate) fn took(&self) {
        self.0.taken.fetch_add(1, Ordering::Relaxed);
    }

    /// How often it has.
    pub(crate) fn taken(&self) -> u64 {
        self.0.taken.load(Ordering::Relaxed)
    }
}

/// The writer's end.
#[derive(Debug)]
pub(crate) struct Outgoing {
    responses: mpsc::UnboundedReceiver<Box<Response>>,
    credits: Credits,
    notifications: mpsc::Receiver<Vec<u8>>,
    close: Arc<Mutex<Option<Close>>>,
    closing: CancellationToken,
    probes: watch::Receiver<()>,
    _ended: DropGuard,
}

/// `response_bytes`: how many of responses may wait.
pub(crate) fn new(response_bytes: usize) -> (Outbox, Outgoing) {
    let (responses, responses_rx) = mpsc::unbounded_channel();
    let (notifications, notifications_rx) = mpsc::channel(NOTIFICATIONS);
    let credits = Credits::new(response_bytes);
    let close = Arc::new(Mutex::new(None));
    let (closing, ended) = (CancellationToken::new(), CancellationToken::new());
    let (probes, probes_rx) = watch::channel(());
    let outbox = Outbox {
        responses,
        credits: credits.clone(),
        notifications,
        close: close.clone(),
        closing: closing.clone(),
        ended: ended.clone(),
        probes,
        heard: Heard::default(),
    };
    let outgoing = Outgoing {
        responses: responses_rx,
        credits,
        notifications: notifications_rx,
        close,
        closing,
        probes: probes_rx,
        _ended: ended.drop_guard(),
    };
    (outbox, outgoing)
}

impl Outbox {
    /// Queues a response that is small; waits while too many bytes of them wait. It is dropped where the connection has
    /// ended.
    pub(crate) async fn respond(&self, text: impl Into<Text>) {
        let text = text.into();
        if let Some(Room { permit, .. }) = self.room(Source::Memory, text.len()).await {
            self.queue(Response { text, permit });
        }
    }

    /// Waits for the room for a response of about so many bytes. `None`: the connection has ended.
    pub(crate) async fn room(&self, source: Source, bytes: usize) -> Option<Room> {
        self.credits.of(source).room(bytes).await
    }

    /// Queues a response that has its room.
    pub(crate) fn queue(&self, response: Response) {
        // The writer may have ended meanwhile; then nobody waits for the response.
        let _ = self.responses.send(Box::new(response));
    }

    /// The lane of notifications, each in UTF-8.
    pub(crate) fn notifications(&self) -> &mpsc::Sender<Vec<u8>> {
        &self.notifications
    }

    /// Asks the writer to send what is queued, then this, and to end. The first reason stands.
    pub(crate) fn close(&self, close: Close) {
        self.close.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(close);
        self.closing.cancel();
    }

    /// Returns once the connection is to be closed.
    pub(crate) async fn closing(&self) {
        self.closing.cancelled().await;
    }

    /// Asks the peer for a sign of life. The future waits for the answer.
    pub(crate) fn probe(&self) -> impl Future<Output = ()> + Send + '_ {
        let answered = self.heard.0.answered.notified();
        self.probes.send_replace(());
        answered
    }

    /// Where signs of life are noted: the answer to a probe, and bytes taken after all by a peer that had no room for more.
    pub(crate) fn heard(&self) -> &Heard {
        &self.heard
    }

    /// Returns once the writer has ended.
    pub(crate) async fn ended(&self) {
        self.ended.cancelled().await;
    }
}

impl Outgoing {
    /// What can be sent without waiting.
    pub(crate) fn try_next(&mut self) -> Option<Item> {
        if self.probes.has_changed().unwrap_or_default() {
            self.probes.mark_unchanged();
            return Some(Item::Probe);
        }
        if let Ok(response) = self.responses.try_recv() {
            return Some(Item::response(*response));
        }
        if self.closing.is_cancelled() {
            return Some(self.last());
        }
        self.notifications.try_recv().ok().map(|text| Item::Message(Text::Whole(text), None))
    }

    /// Waits for something to send. Cancel safe.
    pub(crate) async fn next(&mut self) -> Item {
        tokio::select! {
            biased;
            Ok(()) = self.probes.changed() => Item::Probe,
            Some(response) = self.responses.recv() => Item::response(*response),
            () = self.closing.cancelled() => self.last(),
            Some(text) = self.notifications.recv() => Item::Message(Text::Whole(text), None),
            else => self.last(),
        }
    }

    /// What was queued in time, and then the close: the last that a client hears of a process may be how it ended.
    fn last(&mut self) -> Item {
        self.notifications.close();
        if let Ok(text) = self.notifications.try_recv() {
            return Item::Message(Text::Whole(text), None);
        }
        let close = self.close.lock().unwrap_or_else(PoisonError::into_inner).take();
        Item::Close(close.unwrap_or_else(Close::going_away))
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        // Whoever waits to queue a response must not wait for ever.
        self.credits.files.free.close();
        self.credits.memory.free.close();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const BYTES: usize = 1000;

    fn text(item: Item) -> String {
        match item {
            Item::Message(Text::Whole(text), _) => String::from_utf8(text).expect("text"),
            Item::Message(Text::File(response), _) => format!("{response:?}"),
            Item::Probe => String::from("probe"),
            Item::Close(close) => format!("close {}", close.reason),
        }
    }

    #[tokio::test]
    async fn responses_overtake_notifications_and_precede_the_close() {
        let (outbox, mut outgoing) = new(BYTES);
        outbox.notifications().send("n1".into()).await.expect("room");
        outbox.respond(String::from("r1")).await;
        outbox.respond(String::from("r2")).await;
        assert_eq!(text(outgoing.next().await), "r1");
        assert_eq!(text(outgoing.try_next().expect("r2")), "r2");
        assert_eq!(text(outgoing.next().await), "n1");
        assert!(outgoing.try_next().is_none());
        outbox.notifications().send("n2".into()).await.expect("room");
        outbox.respond(String::from("r3")).await;
        outbox.close(Close::protocol("first"));
        outbox.close(Close::protocol("second"));
        assert_eq!(text(outgoing.next().await), "r3");
        assert_eq!(text(outgoing.next().await), "n2");
        outbox.notifications().send("n3".into()).await.expect_err("a flood would go on for ever");
        assert_eq!(text(outgoing.try_next().expect("the close")), "close first");
    }

    #[tokio::test]
    async fn a_probe_goes_first_and_is_answered_by_what_comes_after_it() {
        let (outbox, mut outgoing) = new(BYTES);
        outbox.respond(String::from("r")).await;
        outbox.heard().answered();
        let heard = outbox.probe();
        assert_eq!(text(outgoing.try_next().expect("a probe")), "probe");
        assert_eq!(text(outgoing.next().await), "r");
        let mut heard = std::pin::pin!(heard);
        assert!(heard.as_mut().now_or_never().is_none(), "what came before it is none");
        outbox.heard().answered();
        heard.await;
        let _heard = outbox.probe();
        assert_eq!(text(outgoing.next().await), "probe");
    }

    #[tokio::test]
    async fn both_lanes_are_bounded() {
        let (outbox, mut outgoing) = new(BYTES);
        for _ in 0..NOTIFICATIONS {
            outbox.notifications().try_send(Vec::new()).expect("room");
        }
        assert!(outbox.notifications().try_send(Vec::new()).is_err());
        outbox.respond("x".repeat(BYTES)).await;
        let second = tokio::spawn({
            let outbox = outbox.clone();
            async move { outbox.respond(String::from("second")).await }
        });
        drop(outgoing.next().await);
        second.await.expect("the permit came back");
        drop(outgoing);
        outbox.ended().await;
        outbox.respond(String::from("nobody reads")).await;
    }

    #[tokio::test]
    async fn a_response_has_its_room_before_it_is_made() {
        let (outbox, mut outgoing) = new(2 * BYTES);
        let room = |bytes| outbox.room(Source::Files, bytes);
        let mut first = room(100).await.expect("room");
        assert!(first.holds(600), "what is free is to be had");
        let mut second = room(300).await.expect("room");
        assert!(!second.holds(401) && second.holds(400), "what another has is not");
        assert!(room(1).now_or_never().is_none(), "all of it is taken");
        let Made::Response(response) = first.put("x".repeat(50)) else { panic!("it has room") };
        outbox.queue(response);
        let mut third = room(550).now_or_never().expect("what is not needed goes back").expect("room");
        assert!(!third.holds(551));
        outbox.respond("x".repeat(BYTES)).now_or_never().expect("what is not of files has a half to itself");
        drop(second);
        assert!(matches!(third.put("x".repeat(951)), Made::Larger(951)), "the one that waits has 50");
        assert!(room(BYTES).now_or_never().is_none(), "it waits still");
        drop((outgoing.next().await, outgoing.next().await));
        let all = room(64 * BYTES).now_or_never().expect("all of it is free").expect("room");
        let Made::Response(response) = all.put("x".repeat(64 * BYTES)) else { panic!("it is alone") };
        outbox.queue(response);
        assert!(room(1).now_or_never().is_none(), "a larger one waits alone");
        drop(outgoing.next().await);
        assert!(room(1).now_or_never().is_some());
        drop(outgoing);
        assert!(room(1).await.is_none(), "the connection has ended");
    }
}
