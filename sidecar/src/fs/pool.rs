//! Threads that the kernel confines, and the operations that run on them.
//!
//! A pool serves the default policy; any other policy gets a thread of its own, used once. A confined thread can never
//! be given back to anything else.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use sidecar_protocol::{ErrorData, ErrorKind, RpcError};
use sidecar_sandbox::{Prepared, Request, Sandbox};
use tokio::sync::{Semaphore, oneshot};

use crate::policy;
use crate::relay::Relay;

/// Threads of the pool: one that hangs on a slow disk must not stop the others.
const THREADS: usize = 4;

/// One-shot threads at the same time.
const ONE_SHOTS: usize = 16;

/// Runs file operations on confined threads.
#[derive(Debug)]
pub(crate) struct Files {
    sandbox: Sandbox,
    relay: Relay,
    pool: Mutex<Option<Pool>>,
    one_shots: Semaphore,
}

/// Read-locked by whoever has yet to close a file that was replaced.
static REPLACED: RwLock<()> = RwLock::new(());

/// Waits until the space of the files that were replaced before is free.
pub(super) fn wait_for_space() {
    drop(REPLACED.write().unwrap_or_else(PoisonError::into_inner));
}

/// Shows that the current thread is confined, and by what. Only a confined thread has one.
#[derive(Debug)]
pub(crate) struct Confined {
    prepared: Arc<Prepared>,
    sandbox: Sandbox,
    replaced: RefCell<Option<(File, RwLockReadGuard<'static, ()>)>>,
}

impl Confined {
    pub(crate) fn prepared(&self) -> &Arc<Prepared> {
        &self.prepared
    }

    pub(crate) fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    /// Closes a file once the answer is given. The last one to close a file without a name frees all that it holds, which
    /// takes longer than to write it.
    pub(super) fn close_later(&self, file: File) {
        let guard = REPLACED.read().unwrap_or_else(PoisonError::into_inner);
        self.replaced.replace(Some((file, guard)));
    }

    /// Confines the current thread for ever.
    fn enter(sandbox: &Sandbox, prepared: &Arc<Prepared>) -> Result<Confined, RpcError> {
        sandbox.confine_current_thread(prepared).map_err(|e| policy::refusal(&e))?;
        Ok(Confined { prepared: prepared.clone(), sandbox: sandbox.clone(), replaced: RefCell::default() })
    }
}

/// Gets the proof of confinement, or why there is none.
type Job = Box<dyn FnOnce(Result<&Confined, &RpcError>) + Send>;

/// Shows that a look by the current thread tells no more than one by a confined thread would, and that a confined one would
/// be let look: a pool is there, under a policy that holds.
#[derive(Debug)]
pub(crate) struct Looking(());

#[cfg(test)]
impl Looking {
    pub(super) fn for_a_test() -> Looking {
        Looking(())
    }
}

#[derive(Debug)]
struct Pool {
    prepared: Arc<Prepared>,
    confined: Arc<AtomicBool>,
    jobs: Arc<Jobs>,
}

/// The near end of a pool's queue. The threads end when it is dropped and the queue is empty.
struct Jobs(Arc<Queue>);

/// Each thread waits by itself, so that a job wakes one; where one waited for a job, and the others for its turn, each job
/// woke a second one.
#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    closed: bool,
}

impl Jobs {
    fn push(&self, job: Job) {
        self.0.lock().jobs.push_back(job);
        self.0.changed.notify_one();
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.changed.notify_all();
    }
}

impl fmt::Debug for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jobs").field("waiting", &self.0.lock().jobs.len()).finish()
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a job; `None` once there will be none.
    fn next(&self) -> Option<Job> {
        let mut waiting = self.lock();
        loop {
            match waiting.jobs.pop_front() {
                None if !waiting.closed => {
                    waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
                }
                job => return job,
            }
        }
    }
}

impl Files {
    pub(crate) fn new(sandbox: Sandbox, relay: Relay) -> Files {
        Files { sandbox, relay, pool: Mutex::new(None), one_shots: Semaphore::new(ONE_SHOTS) }
    }

    /// Runs `operation` on a thread that is confined by the policy of `request`.
    pub(crate) async fn run<T, F>(&self, request: Request, operation: F) -> Result<T, RpcError>
    where
        T: Send + 'static,
        F: FnOnce(&Confined) -> Result<T, RpcError> + Send + 'static,
    {
        let operation = match request {
            Request::Default => match self.run_on_pool(operation).await? {
                Ok(result) => return result,
                Err(operation) => operation,
            },
            _ => operation,
        };
        let is_default = request == Request::Default;
        let sandbox = self.sandbox.clone();
        let prepared = tokio::task::spawn_blocking(move || sandbox.prepare(&request))
            .await
            .map_err(|e| lost(&e))?
            .map_err(|e| policy::refusal(&e))?;
        let (job, answer) = job(operation);
        if is_default {
            self.submit(prepared, job)?;
            return self.relay.carry(answer).await.map_err(|e| lost(&e))?;
        }
        let _turn = self.one_shots.acquire().await.map_err(|e| lost(&e))?;
        let sandbox = self.sandbox.clone();
        thread("fs-once", move || job(Confined::enter(&sandbox, &prepared).as_ref()))?;
        self.relay.carry(answer).await.map_err(|e| lost(&e))?
    }

    /// Lets the current thread look, where that is sure to be right without a wait.
    pub(crate) fn looking(&self, request: &Request) -> Option<Looking> {
        let holds = |pool: &Pool| pool.confined.load(Ordering::Relaxed) && pool.prepared.surely_holds();
        let pool = self.pool.try_lock().ok()?;
        let sure =
            *request == Request::Default && Sandbox::looks_as_confined() && pool.as_ref().is_some_and(holds);
        sure.then_some(Looking(()))
    }

    /// On a thread of the pool that there is, which looks itself whether its policy still holds: that takes the disk, and
    /// to look before, elsewhere, takes as long as most operations. Gives the operation back where it does not hold.
    async fn run_on_pool<T, F>(&self, operation: F) -> Result<Result<Result<T, RpcError>, F>, RpcError>
    where
        T: Send + 'static,
        F: FnOnce(&Confined) -> Result<T, RpcError> + Send + 'static,
    {
        let Some(jobs) = self.lock().as_ref().map(|pool| pool.jobs.clone()) else {
            return Ok(Err(operation));
        };
        let (job, answer) = job(|confined| {
            Ok(if confined.prepared.holds() { Ok(operation(confined)) } else { Err(operation) })
        });
        jobs.push(job);
        self.relay.carry(answer).await.map_err(|e| lost(&e))?
    }

    fn lock(&self) -> MutexGuard<'_, Option<Pool>> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands a job to the pool. A new one is made where the policy is no longer the one that it was confined by: the
    /// workspace may have been removed and made again.
    fn submit(&self, prepared: Arc<Prepared>, job: Job) -> Result<(), RpcError> {
        let mut pool = self.lock();
        let current = match &mut *pool {
            Some(current) if Arc::ptr_eq(&current.prepared, &prepared) => current,
            slot => slot.insert(Pool::start(&self.sandbox, prepared)?),
        };
        current.jobs.push(job);
        Ok(())
    }
}

impl Pool {
    fn start(sandbox: &Sandbox, prepared: Arc<Prepared>) -> Result<Pool, RpcError> {
        let queue = Arc::new(Queue::default());
        let jobs = Arc::new(Jobs(queue.clone()));
        let confined = Arc::new(AtomicBool::new(false));
        for number in 0..THREADS {
            let (sandbox, prepared, queue) = (sandbox.clone(), prepared.clone(), queue.clone());
            let is_confined = confined.clone();
            thread(&format!("fs-{number}"), move || {
                let confined = Confined::enter(&sandbox, &prepared);
                is_confined.fetch_or(confined.is_ok(), Ordering::Relaxed);
                while let Some(job) = queue.next() {
                    job(confined.as_ref());
                }
            })?;
        }
        Ok(Pool { prepared, confined, jobs })
    }
}

/// An operation as a job, and where its result comes.
fn job<T, F>(operation: F) -> (Job, oneshot::Receiver<Result<T, RpcError>>)
where
    T: Send + 'static,
    F: FnOnce(&Confined) -> Result<T, RpcError> + Send + 'static,
{
    let (reply, answer) = oneshot::channel();
    let job = Box::new(move |confined: Result<&Confined, &RpcError>| {
        // Whoever asked may be gone.
        let _ = reply.send(match confined {
            Ok(confined) => operation(confined),
            Err(error) => Err(error.clone()),
        });
        if let Ok(confined) = confined {
            drop(confined.replaced.take());
        }
    });
    (job, answer)
}

fn thread(name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), RpcError> {
    let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(body);
    spawned.map(drop).map_err(|e: io::Error| {
        RpcError::internal(format!("no thread for the file operation: {e}")).with_data(&ErrorData {
            kind: Some(ErrorKind::Limit),
            errno: e.raw_os_error(),
            ..ErrorData::default()
        })
    })
}

fn lost(error: &dyn std::fmt::Display) -> RpcError {
    RpcError::internal(format!("the file operation was lost: {error}"))
}

#[cfg(test)]
mod tests {
    use caps::CapSet;
    use sidecar_sandbox::{Options, Profile, Roots};
    use tempfile::TempDir;

    use super::*;

    /// Runs it on a thread of its own, with or without capabilities where there are some.
    fn on_a_thread(privileged: bool, test: impl AsyncFnOnce() + Send + 'static) {
        let thread = std::thread::spawn(move || {
            if !privileged {
                caps::clear(None, CapSet::Effective).expect("cleared");
            }
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(test());
        });
        thread.join().expect("the test");
    }

    fn files(workspace: &TempDir) -> Files {
        let roots = Roots {
            workspace: workspace.path().canonicalize().expect("a path"),
            home: None,
            tmp: "/tmp".into(),
            read_roots: vec![],
            write_roots: vec![],
            protected: vec![],
        };
        Files::new(Sandbox::start(Options::new(roots)).expect("a sandbox"), Relay::start().expect("a relay"))
    }

    /// What is known of the policy is known for a second, and this may be held up for longer.
    async fn until_it_looks(files: &Files) {
        while files.looking(&Request::Default).is_none() {
            files.run(Request::Default, |_| Ok(())).await.expect("it ran");
        }
    }

    #[test]
    fn a_thread_looks_where_a_confined_one_would_be_let() {
        on_a_thread(false, async || {
            let workspace = tempfile::tempdir().expect("a workspace");
            let files = files(&workspace);
            let looks = |request| files.looking(&request).is_some();
            assert!(!looks(Request::Default), "nothing was confined yet");
            until_it_looks(&files).await;
            assert!(!looks(Request::Profile(Profile::ReadOnly)), "another policy");
            let moved = workspace.path().with_extension("moved");
            std::fs::rename(workspace.path(), &moved).expect("renamed");
            assert!(!looks(Request::Default), "the policy may not hold any more");
            std::fs::rename(&moved, workspace.path()).expect("renamed");
            until_it_looks(&files).await;
            let busy = files.lock();
            assert!(!looks(Request::Default), "it would have to wait");
            drop(busy);
        });
    }

    #[test]
    fn a_thread_with_capabilities_does_not_look() {
        let any = !caps::read(None, CapSet::Effective).expect("read").is_empty();
        on_a_thread(true, async move || {
            let workspace = tempfile::tempdir().expect("a workspace");
            let files = files(&workspace);
            if !any {
                return until_it_looks(&files).await;
            }
            for _ in 0..10 {
                files.run(Request::Default, |_| Ok(())).await.expect("it ran");
                assert!(files.looking(&Request::Default).is_none());
            }
        });
    }
}
