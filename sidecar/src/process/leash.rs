//! The hold on the tree of one process: signals, and the SIGKILL that is due. A part of its pump, which decides when.

use std::io;
use std::time::Duration;

use nix::sys::signal::Signal;
use sidecar_sandbox::Child;
use tokio::time::Instant;

const SIGTERM: i32 = Signal::SIGTERM as i32;
const SIGKILL: i32 = Signal::SIGKILL as i32;

/// Until a SIGKILL that did not reach the whole tree is given again.
const AGAIN: Duration = Duration::from_millis(200);

/// The hold.
pub(super) struct Leash {
    /// `None` once the tree is gone.
    child: Option<Child>,
    /// When the tree gets SIGKILL.
    kill_at: Option<Instant>,
}

impl Leash {
    pub(super) fn new(child: Child) -> Leash {
        Leash { child: Some(child), kill_at: None }
    }

    /// Whether something of the tree may be left.
    pub(super) fn holds(&self) -> bool {
        self.child.is_some()
    }

    pub(super) fn child(&self) -> Option<&Child> {
        self.child.as_ref()
    }

    /// The tree is gone; what is left is to be reaped.
    pub(super) fn let_go(&mut self) -> Option<Child> {
        self.kill_at = None;
        self.child.take()
    }

    /// When the tree gets SIGKILL.
    pub(super) fn kill_at(&self) -> Option<Instant> {
        self.kill_at.filter(|_| self.child.is_some())
    }

    /// SIGKILL to the tree, once this time has come; sooner where that is due already.
    pub(super) fn kill_by(&mut self, at: Instant) {
        self.kill_at = Some(self.kill_at.map_or(at, |due| due.min(at)));
    }

    /// SIGTERM to the tree, SIGKILL after the grace.
    pub(super) fn terminate(&mut self, grace: Duration) {
        self.kill_by(Instant::now() + grace);
        self.tell("a tree", SIGTERM, |child| child.signal_tree(SIGTERM));
    }

    /// SIGKILL to the tree; once more, later, where that did not reach all of it.
    pub(super) fn kill(&mut self) {
        let reached = self.tell("a tree", SIGKILL, |child| child.signal_tree(SIGKILL));
        self.kill_at = (!reached).then(|| Instant::now() + AGAIN);
    }

    /// To the process group.
    pub(super) fn signal(&self, signal: i32) {
        self.tell("a process", signal, |child| child.signal(signal));
    }

    fn tell(&self, whom: &str, signal: i32, tell: impl FnOnce(&Child) -> io::Result<()>) -> bool {
        if let Some(child) = &self.child
            && let Err(e) = tell(child)
        {
            tracing::warn!(signal, error = %e, "cannot signal {whom}");
            return false;
        }
        true
    }
}
