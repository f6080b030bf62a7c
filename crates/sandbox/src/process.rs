//! A started command as the server holds it: events to wait for, orders to its shim, its end.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::mpsc;

use nix::errno::Errno;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};

use crate::aside::set_aside;
use crate::launcher::Shim;
use crate::orphans::Shims;
use crate::plan::{Order, Plan};
use crate::sandbox::Lent;
use crate::sys;
use crate::tag::Tag;
use crate::tmp::Hostile;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// The exit code; 128+n by signal n.
    pub code: i32,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

impl Exit {
    const KILLED: Exit = Exit { code: 128 + libc::SIGKILL, signal: Some(libc::SIGKILL) };

    fn from_wait_status(status: i32) -> Self {
        if libc::WIFEXITED(status) {
            Exit { code: libc::WEXITSTATUS(status), signal: None }
        } else {
            let signal = libc::WTERMSIG(status);
            Exit { code: 128 + signal, signal: Some(signal) }
        }
    }
}

/// A command and its tree. Dropping it ends the tree.
#[derive(Debug)]
pub struct Child {
    inner: Option<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) plan: Arc<Plan>,
    /// `None` only while it is being dropped.
    pub(crate) orders: Option<OwnedFd>,
    pub(crate) event: OwnedFd,
    pub(crate) shim: Shim,
    /// A second handle on the master, for signals to the foreground group.
    pub(crate) terminal: Option<OwnedFd>,
    pub(crate) tag: Tag,
    pub(crate) shims: Shims,
    /// `None` once the command runs.
    pub(crate) lent: Option<Lent>,
    /// Removed with the tree.
    pub(crate) _tmp: Option<Hostile>,
}

/// Looks at a tree, and cannot touch it. It may outlive the tree, and finds nothing then.
#[derive(Debug, Clone, Copy)]
pub struct Tree {
    tag: Tag,
    shim: i32,
}

impl Tree {
    /// Its live processes, found by their tag; the shim is not among them. Blocking: it looks through /proc.
    pub fn processes(&self) -> Vec<i32> {
        self.tag.bearers(Some(self.shim)).into_iter().map(|(pid, _)| pid).collect()
    }
}

impl Child {
    pub(crate) fn new(inner: Inner) -> Self {
        Self { inner: Some(inner) }
    }

    fn inner(&self) -> &Inner {
        // Only reap and drop take it, and both consume the child.
        self.inner.as_ref().unwrap_or_else(|| unreachable!("a reaped child is used"))
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.inner().plan
    }

    pub(crate) fn shim_pid(&self) -> i32 {
        self.inner().shim.pid
    }

    pub(crate) fn tag(&self) -> Tag {
        self.inner().tag
    }

    /// The command runs, and its shim has its own copies of what was lent.
    pub(crate) fn take_back(&mut self) {
        if let Some(Inner { lent, orders, event, shim, terminal, .. }) = &mut self.inner {
            *lent = None;
            orders.iter_mut().chain(terminal).chain([event, &mut shim.pidfd]).for_each(set_aside);
        }
    }

    /// Makes a stopped shim go on; does nothing to any other.
    pub(crate) fn wake_shim(&self) {
        // A shim that is gone needs no signal.
        let _ = sys::pidfd_send_signal(self.inner().shim.pidfd.as_fd(), libc::SIGCONT);
    }

    /// The command's pid.
    pub fn pid(&self) -> i32 {
        self.plan().pid.load(Relaxed)
    }

    /// Becomes readable once the command itself has ended; stays so.
    pub fn exit_event(&self) -> BorrowedFd<'_> {
        self.inner().event.as_fd()
    }

    /// Takes the news of the start off the event, and leaves, or puts back, that of the exit.
    pub(crate) fn clear_start_event(&self) -> io::Result<()> {
        let event = &self.inner().event;
        let mut count = [0; 8];
        nix::unistd::read(event, &mut count)?;
        if self.plan().exited.load(Acquire) {
            nix::unistd::write(event, &1u64.to_ne_bytes())?;
        }
        Ok(())
    }

    /// Becomes readable once the whole tree is gone (or its shim has died: then [`Child::reap`] ends the tree); stays so.
    pub fn tree_event(&self) -> BorrowedFd<'_> {
        self.inner().shim.pidfd.as_fd()
    }

    /// The live processes of the tree; see [`Tree::processes`].
    pub fn processes(&self) -> Vec<i32> {
        self.tree().processes()
    }

    /// A handle to look at the tree with, from any thread.
    pub fn tree(&self) -> Tree {
        Tree { tag: self.tag(), shim: self.shim_pid() }
    }

    /// How the command ended; `None` while it runs.
    pub fn exit(&self) -> Option<Exit> {
        let plan = self.plan();
        plan.exited.load(Acquire).then(|| Exit::from_wait_status(plan.status.load(Relaxed)))
    }

    /// Sends a signal to the command's process group; to the foreground group of its terminal where it has one. A gone
    /// process is no error.
    ///
    /// # Errors
    /// The OS refused for another reason.
    pub fn signal(&self, signal: i32) -> io::Result<()> {
        if self.exit().is_some() {
            return Ok(());
        }
        match &self.inner().terminal {
            // The terminal itself sends no others.
            Some(master) if matches!(signal, libc::SIGINT | libc::SIGQUIT | libc::SIGTSTP) => {
                sys::terminal_signal(master.as_fd(), signal)
            }
            Some(master) => {
                let group = nix::unistd::tcgetpgrp(master).map_or(0, nix::unistd::Pid::as_raw);
                self.order(Order { what: Order::FOREGROUND, signal, group })
            }
            None => self.order(Order { what: Order::GROUP, signal, group: 0 }),
        }
    }

    /// Sends a signal to every process of the tree; SIGKILL is repeated until none is left. Returns at once.
    ///
    /// # Errors
    /// The order could not be given. A SIGKILL to be given again: something of the tree may be left.
    pub fn signal_tree(&self, signal: i32) -> io::Result<()> {
        let ordered = self.order(Order { what: Order::TREE, signal, group: 0 });
        if self.plan().scoped.load(Relaxed) {
            return ordered;
        }
        // Whatever became of the order: the tree can stop its shim, which takes none then.
        let (tag, shim) = (self.tag(), self.shim_pid());
        if signal != libc::SIGKILL {
            tag.signal(signal, Some(shim));
            return Ok(());
        }
        let own = self.inner().shim.pidfd.try_clone();
        let aside = own.and_then(|pidfd| {
            let thread = std::thread::Builder::new().name("tree-kill".into());
            thread.spawn(move || end_unscoped(tag, shim, pidfd.as_fd()))
        });
        match aside {
            Ok(_) => Ok(()),
            // It may be this very tree that leaves no thread to be had. It is not waited for: the caller has others to serve.
            Err(_) if tag.strike(Some(shim)).is_none() => {
                resume(self.inner().shim.pidfd.as_fd());
                Ok(())
            }
            Err(e) => Err(e),
        }
    }

    pub(crate) fn order(&self, order: Order) -> io::Result<()> {
        let Some(orders) = &self.inner().orders else { return Ok(()) };
        match nix::unistd::write(orders, &order.bytes()) {
            Ok(_) => Ok(()),
            // The shim is gone, and its tree with it, or reap() sees to that.
            Err(Errno::EPIPE) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// After [`Child::tree_event`]: frees what the tree held. Blocking: it waits for the tree's end. Gives the exit, made
    /// up as SIGKILL's where the shim died before it could tell.
    pub fn reap(mut self) -> Exit {
        let exit = self.inner.take().map(Inner::finish);
        exit.flatten().unwrap_or(Exit::KILLED)
    }
}

/// Kills a tree that no scope holds in. It may have stopped its shim, which can reap nothing then: once the tree is gone,
/// nobody of it is left to do so again.
fn end_unscoped(tag: Tag, shim: i32, pidfd: BorrowedFd<'_>) {
    tag.kill(Some(shim));
    resume(pidfd);
}

fn resume(shim: BorrowedFd<'_>) {
    // One that is gone needs no signal.
    let _ = sys::pidfd_send_signal(shim, libc::SIGCONT);
}

impl Inner {
    /// After EOF on the orders.
    fn end(self) -> Option<Exit> {
        if !self.plan.scoped.load(Relaxed) {
            end_unscoped(self.tag, self.shim.pid, self.shim.pidfd.as_fd());
        }
        self.finish()
    }

    /// Waits for the shim, and ends what it left.
    fn finish(self) -> Option<Exit> {
        let status = loop {
            match waitid(Id::PIDFd(self.shim.pidfd.as_fd()), WaitPidFlag::WEXITED) {
                Err(Errno::EINTR) => {}
                other => break other,
            }
        };
        self.shims.forget(self.shim.pid);
        let orderly = matches!(status, Ok(WaitStatus::Exited(_, 0)));
        if !orderly || !self.plan.scoped.load(Relaxed) {
            self.tag.kill(None);
        }
        let plan = &self.plan;
        plan.exited.load(Acquire).then(|| Exit::from_wait_status(plan.status.load(Relaxed)))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let Some(mut inner) = self.inner.take() else { return };
        // EOF: the shim ends its tree. Its memory must outlive it, so somebody waits.
        inner.orders = None;
        let (hand_over, inbox) = mpsc::channel::<Inner>();
        let waiter =
            std::thread::Builder::new().name("tree-end".into()).spawn(move || inbox.recv().map(Inner::end));
        match waiter {
            Ok(_) => drop(hand_over.send(inner)),
            Err(_) => drop(inner.end()),
        }
    }
}
