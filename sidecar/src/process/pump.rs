//! Follows one process from its start to the end of its tree: the only writer of its log, the only owner of its child.
//!
//! One task, one loop. It numbers what happens, retains output, sends each event to the connection, and obeys orders.
//! Where the connection takes no more, or nothing more can be retained for a client that acknowledges, it stops reading:
//! the pipe fills and the process waits. It never waits with orders unheard.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::Signal;
use sidecar_protocol::process::{Cause, ExitedNotification};
use sidecar_sandbox::{Child, Exit, Prepared};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::account::{Account, Ended};
use super::allowance::Allowance;
use super::delivery::{Delivery, Step};
use super::denied::Denial;
use super::leash::Leash;
use super::passing::Passing;
use super::source::{Read, Sources};
use super::watched::{beside, fired, watch};
use super::{Order, Phase, Process};
use crate::config::Background;
use crate::session::{Ending, Session};

const SIGKILL: i32 = Signal::SIGKILL as i32;

pub(super) struct Pump {
    session: Arc<Session>,
    process: Arc<Process>,
    leash: Leash,
    /// As long as there is a child: what is kept of an ended one must cost no descriptors.
    exit_event: Option<AsyncFd<OwnedFd>>,
    tree_event: Option<AsyncFd<OwnedFd>>,
    sources: Sources,
    orders: mpsc::UnboundedReceiver<Order>,
    ending: watch::Receiver<Ending>,
    delivery: Delivery,
    passing: Passing,
    allowance: Allowance,
    account: Account,
    started: Instant,
    stage: Stage,
    exit: Option<Exit>,
    cause: Option<Cause>,
    failure: Option<String>,
    /// When the last byte came, or room for one.
    active_at: Instant,
    /// When its id is free again; set by the exit.
    forget_at: Option<Instant>,
    /// Whether its id is free again.
    forgotten: bool,
}

/// What has been told of the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Running,
    /// The exit is known; what was written before it is being read.
    Settling,
    Exited,
    Closed,
}

impl Pump {
    pub(super) fn new(
        process: Arc<Process>,
        child: Child,
        sources: Sources,
        orders: mpsc::UnboundedReceiver<Order>,
        allowance: Allowance,
        account: Account,
        sandboxed: Option<(Arc<Prepared>, PathBuf)>,
    ) -> io::Result<Pump> {
        let session = account.session().clone();
        let denial = sandboxed.map(|(prepared, cwd)| Denial::new(prepared, cwd));
        let mut ending = session.ending();
        ending.mark_changed();
        Ok(Pump {
            exit_event: Some(event(child.exit_event())?),
            tree_event: Some(event(child.tree_event())?),
            delivery: Delivery::new(session.link(), process.acked.subscribe()),
            passing: Passing::new(session.clone(), process.clone(), denial),
            process,
            leash: Leash::new(child),
            sources,
            orders,
            ending,
            session,
            allowance,
            account,
            started: Instant::now(),
            stage: Stage::Running,
            exit: None,
            cause: None,
            failure: None,
            active_at: Instant::now(),
            forget_at: None,
            forgotten: false,
        })
    }

    pub(super) async fn run(mut self) {
        loop {
            self.advance();
            // Here, and not sooner: where nobody is attached, nothing is sent that would come back to it.
            if self.is_done() {
                break;
            }
            let (deadline, can_read) = (self.deadline(), self.make_room());
            tokio::select! {
                Some(order) = self.orders.recv() => self.obey(order).await,
                Ok(()) = self.ending.changed() => self.end().await,
                step = self.delivery.step() => self.step(step),
                read = self.sources.read(&mut self.passing), if can_read => self.took(read),
                () = fired(self.exit_event.as_ref()), if self.exit.is_none() => self.notice_exit(),
                () = fired(self.tree_event.as_ref()), if self.leash.holds() => self.reap().await,
                () = tokio::time::sleep_until(deadline.unwrap_or(self.active_at)), if deadline.is_some() => {
                    self.on_time().await;
                }
            }
        }
        self.session.forget(&self.process);
    }

    /// Whether the tree is gone, everything is told, and the id is free. An ended session keeps no ids.
    fn is_done(&self) -> bool {
        let told = self.stage == Stage::Closed && self.is_clear();
        !self.leash.holds() && told && (self.forgotten || self.is_ending())
    }

    fn is_ending(&self) -> bool {
        *self.ending.borrow() != Ending::No
    }

    /// Whether whoever is attached has been given everything.
    fn is_clear(&self) -> bool {
        self.delivery.is_clear(self.process.log().last_seq())
    }

    /// Whether more output can be taken. Of an ended session nothing is kept for later.
    fn can_read(&self) -> bool {
        self.is_clear() && self.room() > 0
    }

    /// The same, and bounds the next read by the room that there is.
    fn make_room(&mut self) -> bool {
        self.sources.limit(self.room());
        self.passing.heard(self.stage != Stage::Closed && self.delivery.is_attached());
        self.can_read()
    }

    fn room(&self) -> usize {
        if self.is_ending() { usize::MAX } else { self.process.log().room() }
    }

    /// Tells what is still to be told again, then what can be told of the end, one event at a time.
    fn advance(&mut self) {
        self.delivery.refill(&self.process);
        while self.is_clear() {
            match self.stage {
                Stage::Settling => {
                    if !self.make_room() {
                        return;
                    }
                    match self.sources.settle(&mut self.passing) {
                        Some(read) => self.took(read),
                        None => self.tell_exited(),
                    }
                }
                Stage::Exited if self.sources.is_empty() => self.tell_closed(),
                _ => return,
            }
        }
    }

    fn took(&mut self, read: Read) {
        let Read::Data(stream, len) = read else { return };
        let frame = self.passing.message();
        // A background process may write on for as long as it lives. Nobody hears it, but it must not get stuck, nor
        // be killed by a pipe without a reader.
        if self.stage == Stage::Closed {
            return;
        }
        // Nobody else gives numbers.
        let seq = self.process.log().last_seq() + 1;
        let dropped = {
            let mut log = self.process.log();
            log.output(stream, self.sources.buffer(), len);
            if frame.is_some() {
                log.show(seq);
            }
            log.dropped_bytes()
        };
        self.account.output(stream, len, dropped);
        if let Some(frame) = frame {
            self.delivery.push(seq, frame);
        }
        self.active_at = Instant::now();
        self.publish(seq, Phase::Running);
    }

    fn notice_exit(&mut self) {
        if self.exit.is_some() {
            return;
        }
        let Some(exit) = self.leash.child().and_then(Child::exit) else { return };
        self.exited(exit);
    }

    fn exited(&mut self, exit: Exit) {
        self.exit = Some(exit);
        self.stage = Stage::Settling;
        self.forget_at = Some(Instant::now() + self.session.shared().config.limits.exited_ttl);
        self.process.stdin.close();
        if self.session.shared().config.background == Background::Kill {
            self.leash.kill_by(Instant::now());
        }
    }

    fn tell_exited(&mut self) {
        let Some(exit) = self.exit else { return };
        let (sandbox_denied, hint) = self.passing.guess(exit);
        let signal = exit.signal.map(signal_name);
        let plain = match exit.signal {
            _ if self.allowance.reached(exit) => Cause::Limit,
            Some(_) => Cause::Signal,
            None => Cause::Exit,
        };
        let cause = self.cause.unwrap_or(plain);
        self.account.exited(&Ended {
            code: exit.code,
            signal: signal.as_deref(),
            cause,
            denied: sandbox_denied,
            hint: hint.as_deref(),
        });
        let exited = ExitedNotification {
            process_id: self.process.id().to_owned(),
            seq: 0,
            exit_code: exit.code,
            signal,
            cause: Some(cause),
            sandbox_denied,
            hint,
        };
        let seq = self.process.log().exited(exited, self.failure.take());
        self.stage = Stage::Exited;
        self.active_at = Instant::now();
        self.publish(seq, Phase::Exited);
        self.delivery.refill(&self.process);
    }

    fn tell_closed(&mut self) {
        let seq = self.process.log().closed(self.process.id());
        self.stage = Stage::Closed;
        self.passing.end();
        self.publish(seq, Phase::Closed);
        self.delivery.refill(&self.process);
    }

    fn publish(&self, seq: u64, phase: Phase) {
        self.process.progressed(|progress| {
            progress.next_seq = seq + 1;
            progress.phase = progress.phase.max(phase);
        });
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Sent => self.sent(),
            Step::Acked => {
                let held = !self.can_read();
                self.delivery.note_acked(&self.process);
                if held && self.can_read() {
                    self.active_at = Instant::now();
                }
            }
            Step::Relinked => self.relinked(),
        }
    }

    fn relinked(&mut self) {
        self.delivery.relink(&self.process);
        let now = Instant::now();
        self.active_at = now;
        // While nobody was there, nobody could ask for what an exited process is kept for.
        let ttl = self.session.shared().config.limits.exited_ttl;
        self.forget_at = self.forget_at.map(|at| at.max(now + ttl));
    }

    fn sent(&mut self) {
        if self.stage != Stage::Closed {
            self.account.waited(self.active_at.elapsed());
        }
        self.active_at = Instant::now();
    }

    async fn obey(&mut self, order: Order) {
        // An order that crosses the exit finds it.
        self.notice_exit();
        match order {
            Order::Signal(signal) if self.exit.is_none() => self.leash.signal(signal),
            Order::Signal(_) => {}
            Order::Terminate { grace, descendants } => {
                if self.exit.is_none() || descendants {
                    self.count_orphans().await;
                    self.terminate(Cause::Terminated, grace);
                }
            }
            Order::Kill(cause) => self.kill(cause),
            // Where nobody waits for the answer any more, the size holds all the same.
            Order::Resize(size, done) => drop(done.send(self.sources.resize(size))),
        }
    }

    async fn end(&mut self) {
        self.notice_exit();
        if self.is_ending() {
            self.count_orphans().await;
        }
        let ending = *self.ending.borrow_and_update();
        match ending {
            Ending::No => {}
            Ending::Terminate(grace) => self.terminate(Cause::Disconnect, grace),
            Ending::Kill => self.kill(Cause::Disconnect),
        }
    }

    /// What the command left behind counts before it is ended.
    async fn count_orphans(&mut self) {
        let Some(child) = self.leash.child().filter(|_| self.exit.is_some()) else { return };
        if self.account.wants_orphans() {
            let tree = child.tree();
            // It looks through /proc.
            let count = tokio::task::spawn_blocking(move || tree.processes().len()).await;
            self.account.orphans(count.unwrap_or_default());
        }
    }

    fn terminate(&mut self, cause: Cause, grace: Duration) {
        self.note_cause(cause);
        self.leash.terminate(grace);
    }

    fn kill(&mut self, cause: Cause) {
        self.note_cause(cause);
        self.leash.kill();
    }

    /// The first cause stands; after the exit there is none to be given any more.
    fn note_cause(&mut self, cause: Cause) {
        if self.exit.is_none() {
            self.cause.get_or_insert(cause);
        }
    }

    /// The tree is gone, or whoever watched it.
    async fn reap(&mut self) {
        self.notice_exit();
        let Some(child) = self.leash.let_go() else { return };
        (self.exit_event, self.tree_event) = (None, None);
        let exit = tokio::task::spawn_blocking(move || child.reap()).await;
        self.process.progressed(|progress| progress.tree_gone = true);
        if self.exit.is_none() {
            self.failure = Some(String::from("the process was lost, and its tree was killed"));
            self.exited(exit.unwrap_or(Exit { code: 128 + SIGKILL, signal: Some(SIGKILL) }));
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let kill = self.leash.kill_at();
        let forget = self.forget_at.filter(|_| self.may_be_forgotten());
        let allowed = self.allowed_until().map(|(at, _)| at);
        [kill, self.drained_at(), forget, allowed].into_iter().flatten().min()
    }

    /// Whether nobody is missing anything of it any more, but for its id.
    fn may_be_forgotten(&self) -> bool {
        let last = self.process.log().last_seq();
        let told =
            self.delivery.is_attached() && self.delivery.is_clear(last) && self.delivery.is_settled(last);
        self.stage == Stage::Closed && told && !self.forgotten
    }

    /// Until when the command may go on as it does, and what ends it then.
    fn allowed_until(&self) -> Option<(Instant, Cause)> {
        if self.exit.is_some() || self.cause.is_some() {
            return None;
        }
        // Whoever is not being read from is not idle, but held up.
        let active = self.can_read().then(|| self.active_at.max(self.process.stdin.written_at()));
        self.allowance.deadline(self.started, active)
    }

    /// When output counts as over although a stream is still open.
    fn drained_at(&self) -> Option<Instant> {
        if self.stage != Stage::Exited || !self.can_read() {
            return None;
        }
        // Of an ended session, whoever could still write is gone with the tree.
        let orphaned = self.is_ending() && !self.leash.holds();
        let drain = if orphaned { Duration::ZERO } else { self.session.shared().config.limits.drain };
        Some(self.active_at + drain)
    }

    async fn on_time(&mut self) {
        let now = Instant::now();
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if due(self.leash.kill_at()) {
            self.count_orphans().await;
            self.leash.kill();
        }
        if let Some((at, cause)) = self.allowed_until()
            && due(Some(at))
        {
            self.terminate(cause, self.session.shared().config.limits.terminate_grace);
        }
        if due(self.drained_at()) {
            // The last look. Bytes that are there after all start the wait again.
            self.sources.unsettle();
            match self.sources.settle(&mut self.passing) {
                Some(read) => self.took(read),
                None => self.tell_closed(),
            }
        }
        if due(self.forget_at) && self.may_be_forgotten() {
            self.forgotten = true;
            self.session.forget(&self.process);
        }
    }
}

fn event(fd: BorrowedFd<'_>) -> io::Result<AsyncFd<OwnedFd>> {
    watch(beside(fd)?, Interest::READABLE)
}

fn signal_name(signal: i32) -> String {
    Signal::try_from(signal).map_or_else(|_| format!("SIG{signal}"), |signal| signal.as_str().to_owned())
}
