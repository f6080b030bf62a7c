//! The sandbox of one server: the operator's choices, the kernel's probe, the prepared policies, the launcher threads.

use std::collections::HashMap;
use std::ffi::{CString, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::stat::Mode;
use nix::unistd::pipe2;

use crate::changes::Changes;
use crate::command::{self, Command, Ends, Io};
use crate::error::{Error, LaunchError, Stage};
use crate::failure::{self, Subject};
use crate::landlock::{self, Grant};
use crate::launcher::{self, Launcher};
use crate::orphans::Shims;
use crate::plan::{Descriptors, MAX_LAYERS, Order, Plan, Strings, phase};
use crate::policy::{Options, Request};
use crate::prepared::Prepared;
use crate::probe::Kernel;
use crate::process::{Child, Inner};
use crate::receipt::Receipt;
use crate::seccomp::Class;
use crate::stacks;
use crate::tag::Tag;
use crate::tmp::{self, Hostile};

/// How much likelier than the server the kernel is to end a launch when memory runs out; of 1000.
const OOM_SCORE_ADDED: i32 = 500;
/// Prepared policies that are kept. A client that sends ever new permissions must not grow the server.
const MAX_CACHED: usize = 64;
/// What a private temporary directory is announced by.
const TMP_VARIABLES: [&str; 4] = ["TMPDIR", "TMP", "TEMP", "TMUX_TMPDIR"];

/// Java looks at no variable for its temporary directory, but takes options from this one.
const JAVA_OPTIONS: &str = "JAVA_TOOL_OPTIONS";

/// One sandbox per server. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Sandbox {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    options: Options,
    kernel: Kernel,
    scopes: Option<OwnedFd>,
    prepared: Mutex<HashMap<Request, Arc<Prepared>>>,
    launchers: Mutex<HashMap<Class, Launcher>>,
    shims: Shims,
    stacks: stacks::Pool,
    /// Made with the first private directory.
    tmp: Mutex<Option<tmp::Base>>,
    null: OwnedFd,
    oom_score: CString,
}

/// A started command.
#[derive(Debug)]
pub struct Launched {
    /// The command and its tree.
    pub child: Child,
    /// The server's ends of its standard descriptors.
    pub io: Io,
    /// What was enforced for this very launch.
    pub receipt: Receipt,
}

impl Sandbox {
    /// Probes the kernel and makes the default policy and the ceiling ready.
    ///
    /// # Errors
    /// A root that is missing, a step that the kernel refuses. Where Landlock is missing it starts all the same:
    /// [`Sandbox::prepare`] then refuses, so that the reason reaches whoever asks.
    pub fn start(options: Options) -> Result<Sandbox, Error> {
        let kernel = Kernel::probe(options.max_abi);
        tmp::sweep(&options.roots.tmp);
        let null = File::options().read(true).write(true).open("/dev/null");
        let null = null.map_err(|source| Error::Kernel { step: "open /dev/null".into(), source })?.into();
        let scopes = landlock::scopes(&kernel)?;
        let shared = Shared {
            options,
            kernel,
            scopes,
            prepared: Mutex::default(),
            launchers: Mutex::default(),
            shims: Shims::default(),
            stacks: stacks::Pool::default(),
            tmp: Mutex::default(),
            null,
            oom_score: oom_score(),
        };
        let sandbox = Sandbox { shared: Arc::new(shared) };
        for request in [Request::Ceiling, Request::Default] {
            match sandbox.prepare(&request) {
                Ok(prepared) => drop(sandbox.launcher(prepared.class)?),
                Err(Error::Unavailable(_)) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(sandbox)
    }

    /// What this kernel and container can enforce.
    pub fn kernel(&self) -> &Kernel {
        &self.shared.kernel
    }

    /// The operator's choices.
    pub fn options(&self) -> &Options {
        &self.shared.options
    }

    /// Makes a policy ready, or gives the cached one where its roots are unchanged. Blocking: it looks at the roots.
    ///
    /// # Errors
    /// [`Error`]: the launch must be refused.
    pub fn prepare(&self, request: &Request) -> Result<Arc<Prepared>, Error> {
        let cached = lock(&self.shared.prepared).get(request).cloned();
        if let Some(prepared) = cached
            && prepared.holds()
        {
            return Ok(prepared);
        }
        // A client that sends ever new permissions must not have ever new directories watched.
        let changes = (!request.is_translated()).then(Changes::of_this_process);
        let prepared = Arc::new(Prepared::new(request, &self.shared.options, &self.shared.kernel, changes)?);
        let mut cache = lock(&self.shared.prepared);
        if cache.len() >= MAX_CACHED && !cache.contains_key(request) {
            // The built-in ones are asked for again and again; translated permissions can be made anew.
            cache.retain(|request, _| !request.is_translated());
        }
        cache.insert(request.clone(), Arc::clone(&prepared));
        Ok(prepared)
    }

    /// Whether a launch of the default profile could start now: its places are there, and its launcher thread answers.
    /// Blocking.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), Error> {
        let prepared = self.prepare(&Request::Default)?;
        let answer = self.launcher(prepared.class)?.answer();
        answer.map_err(|source| Error::Kernel { step: "launcher thread".into(), source })
    }

    /// Starts a command; returns when its exec has succeeded or failed. Blocking.
    ///
    /// # Errors
    /// [`LaunchError`] with the stage that failed.
    pub fn launch(&self, prepared: &Arc<Prepared>, mut command: Command) -> Result<Launched, LaunchError> {
        let tmp = prepared.private_tmp.then(|| self.private_tmp(&mut command)).transpose()?;
        let (mut io, ends) = command::open(command.stdio).map_err(|e| failure::before(Stage::Pipes, &e))?;
        let own =
            own_places(prepared, tmp.as_ref(), &ends).map_err(|e| failure::before(Stage::Prepare, &e))?;
        // What belongs to one launch alone needs rulesets of its own.
        let fresh = match own.as_slice() {
            [] => None,
            own => Some(prepared.rulesets_with(own, &self.shared.kernel)?),
        };
        let (order, orders) =
            pipe2(OFlag::O_CLOEXEC).map_err(|e| failure::before(Stage::Pipes, &e.into()))?;
        let lent =
            Lent { order, ends, fresh, prepared: Arc::clone(prepared), shared: Arc::clone(&self.shared) };
        let mut child = self.start_shim(lent, orders, &command, &io, tmp)?;
        release(&child)?;
        let started = await_start(&child, self.shared.kernel.scope_signal)
            .map_err(|e| failure::before(Stage::Shim, &e))?;
        if !started {
            return Err(failed_step(&child, &command));
        }
        // Held here, the command's ends would keep EOF from coming.
        child.take_back();
        io.set_aside();
        let scoped = child.plan().scoped.load(Relaxed);
        let receipt = prepared.receipt.clone();
        let receipt =
            if self.shared.kernel.scope_signal && !scoped { receipt.without_scope() } else { receipt };
        Ok(Launched { child, io, receipt })
    }

    /// Puts the calling thread under the policy for ever: capabilities dropped, no_new_privs, the same Landlock rules as
    /// a launch, without the scopes. For threads that serve file operations.
    ///
    /// # Errors
    /// The thread must not be used then.
    pub fn confine_current_thread(&self, prepared: &Prepared) -> Result<(), Error> {
        launcher::drop_privileges()?;
        landlock::restrict_thread(prepared.rulesets(), self.shared.kernel.abi)
            .map_err(|source| Error::Kernel { step: "landlock_restrict_self".into(), source })
    }

    /// Whether the calling thread sees no more of a file system, by looks alone, than one that is confined: it has no
    /// capability, and Landlock does not gate looks. It cannot get one, since the server has set `no_new_privs`, or execs
    /// nothing.
    pub fn looks_as_confined() -> bool {
        thread_local!(static UNPRIVILEGED: bool = launcher::is_unprivileged());
        UNPRIVILEGED.with(|unprivileged| *unprivileged)
    }

    /// For a server that is PID 1: reaps the ended children that nobody started, which the kernel hands to it when a shim
    /// dies or something enters the container. To be called after each SIGCHLD. Gives how many there were.
    pub fn reap_orphans(&self) -> usize {
        self.shared.shims.reap_others()
    }

    /// Whether a process belongs to a launch, of this sandbox or of another one.
    ///
    /// # Errors
    /// The process is gone, or cannot be looked at.
    pub fn is_launch(&self, pid: i32) -> io::Result<bool> {
        Tag::any_on(pid)
    }

    fn launcher(&self, class: Class) -> Result<Launcher, Error> {
        let mut launchers = lock(&self.shared.launchers);
        if let Some(launcher) = launchers.get(&class) {
            return Ok(launcher.clone());
        }
        let launcher = Launcher::start(class, self.shared.shims.clone())?;
        launchers.insert(class, launcher.clone());
        Ok(launcher)
    }

    fn private_tmp(&self, command: &mut Command) -> Result<Hostile, LaunchError> {
        let prepare = |e: io::Error| failure::before(Stage::Prepare, &e);
        let mut base = lock(&self.shared.tmp);
        let dir = match base.as_ref().map(tmp::Base::launch_dir) {
            Some(Ok(dir)) => dir,
            // The first one, or a launch that may write to /tmp has removed the base, or put something in its place.
            _ => {
                let made = tmp::Base::new(&self.shared.options.roots.tmp).map_err(prepare)?;
                base.insert(made).launch_dir().map_err(prepare)?
            }
        };
        for name in TMP_VARIABLES {
            command.set_env(name, dir.path().as_os_str());
        }
        command.append_env(JAVA_OPTIONS, &format!("-Djava.io.tmpdir={}", dir.path().display()));
        Ok(dir)
    }

    /// From here on there is a [`Child`]: dropping it ends whatever was started.
    fn start_shim(
        &self,
        lent: Lent,
        orders: OwnedFd,
        command: &Command,
        io: &Io,
        tmp: Option<Hostile>,
    ) -> Result<Child, LaunchError> {
        let pipes = |e: io::Error| failure::before(Stage::Pipes, &e);
        let prepare = |e: io::Error| failure::before(Stage::Prepare, &e);
        let cwd = CString::new(command.cwd.as_os_str().as_bytes()).map_err(|e| prepare(e.into()))?;
        let strings = Strings::new(
            command.arguments(),
            command.environment().map_err(prepare)?,
            command.candidates().map_err(prepare)?,
            cwd,
            self.shared.oom_score.clone(),
        );
        let tag = Tag::fresh().map_err(|e| failure::before(Stage::Tag, &e))?;
        // Only this end may not block: a shim that does not take orders must not hold the server up.
        nix::fcntl::fcntl(&orders, nix::fcntl::FcntlArg::F_SETFL(OFlag::O_NONBLOCK))
            .map_err(|e| pipes(e.into()))?;
        let event = EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK);
        let event: OwnedFd = event.map_err(|e| pipes(e.into()))?.into();
        let terminal = match io {
            Io::Pty(master) => Some(master.try_clone().map_err(pipes)?),
            Io::Pipes { .. } => None,
        };
        let descriptors = lent.descriptors().map_err(prepare)?;
        let stacks = self.shared.stacks.take().map_err(|e| failure::before(Stage::Clone, &e))?;
        let flags = landlock::restrict_flags(self.shared.kernel.abi);
        let limits = command.limits.raw().map_err(|e| failure::before(Stage::Limits, &e))?;
        let plan = Arc::new(Plan::new(&descriptors, &event, strings, stacks, limits, flags));
        let launcher = self.launcher(lent.prepared.class)?;
        let shim = launcher.spawn(Arc::clone(&plan)).map_err(|e| failure::before(Stage::Clone, &e))?;
        Ok(Child::new(Inner {
            plan,
            orders: Some(orders),
            event,
            shim,
            terminal,
            tag,
            shims: self.shared.shims.clone(),
            lent: Some(lent),
            _tmp: tmp,
        }))
    }
}

/// What a shim uses by its number in the server's table. None of it may be closed before the shim has its own copies: the
/// number could come to mean something else.
#[derive(Debug)]
pub(crate) struct Lent {
    order: OwnedFd,
    ends: Ends,
    /// The launch's own rulesets, instead of the policy's.
    fresh: Option<Vec<OwnedFd>>,
    prepared: Arc<Prepared>,
    shared: Arc<Shared>,
}

impl Lent {
    fn descriptors(&self) -> io::Result<Descriptors> {
        let mut layers = [-1; MAX_LAYERS];
        let rulesets: Vec<&OwnedFd> = match &self.fresh {
            Some(fresh) => fresh.iter().collect(),
            None => self.prepared.rulesets().collect(),
        };
        if rulesets.len() > MAX_LAYERS {
            return Err(io::Error::other("more Landlock layers than a launch has room for"));
        }
        for (slot, ruleset) in layers.iter_mut().zip(rulesets) {
            *slot = ruleset.as_raw_fd();
        }
        Ok(Descriptors {
            order: self.order.as_raw_fd(),
            stdio: self.ends.numbers(&self.shared.null),
            terminal: self.ends.is_terminal(),
            scope: self.shared.scopes.as_ref().map_or(-1, AsRawFd::as_raw_fd),
            scopes_signals: self.shared.kernel.scope_signal,
            layers,
        })
    }
}

/// The places that only this launch gets.
fn own_places(prepared: &Prepared, tmp: Option<&Hostile>, ends: &Ends) -> io::Result<Vec<(OwnedFd, Grant)>> {
    let mut own = Vec::new();
    if let Some(tmp) = tmp {
        let flags = OFlag::O_PATH | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
        own.push((nix::fcntl::open(tmp.path(), flags, Mode::empty())?, Grant::Write));
    }
    if let (true, Ends::Pty(slave)) = (prepared.own_pty, ends) {
        own.push((slave.try_clone()?, Grant::Device));
    }
    Ok(own)
}

/// Tags the shim, from this unfiltered thread, and lets it start.
fn release(child: &Child) -> Result<(), LaunchError> {
    child.tag().put_on(child.shim_pid()).map_err(|e| failure::before(Stage::Tag, &e))?;
    child
        .order(Order { what: Order::START, signal: 0, group: 0 })
        .map_err(|e| failure::before(Stage::Shim, &e))
}

/// How long a start may take until its shim may be a stopped one, milliseconds.
const STOPPED_SHIM: u8 = 100;

/// Waits until the exec has succeeded (true) or a step has failed (false). Where no scope keeps the command's signals in, it
/// may stop its shim before that can tell of the exec: then the shim is told to go on, again and again.
fn await_start(child: &Child, scoped: bool) -> io::Result<bool> {
    let look_again = if scoped { PollTimeout::NONE } else { STOPPED_SHIM.into() };
    loop {
        let mut fds = [
            PollFd::new(child.exit_event(), PollFlags::POLLIN),
            PollFd::new(child.tree_event(), PollFlags::POLLIN),
        ];
        match poll(&mut fds, look_again) {
            Ok(0) => child.wake_shim(),
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(e) => return Err(e.into()),
        }
        match child.plan().phase.load(Acquire) {
            phase::STARTED => {
                child.clear_start_event()?;
                return Ok(true);
            }
            phase::FAILED => return Ok(false),
            _ if fds[1].any().unwrap_or(false) => {
                return Err(io::Error::other("the shim ended before it could start the command"));
            }
            _ => {}
        }
    }
}

fn failed_step(child: &Child, command: &Command) -> LaunchError {
    let plan = child.plan();
    let code = plan.stage.load(Relaxed);
    let stage = Stage::ALL.into_iter().find(|s| *s as u32 == code).unwrap_or(Stage::Shim);
    let program = command.program();
    let index = plan.candidate.load(Relaxed) as usize;
    let tried = plan
        .strings
        .candidates
        .get(index)
        .map_or_else(|| program.clone(), |c| PathBuf::from(OsString::from_vec(c.as_bytes().to_vec())));
    let subject = Subject { program: &program, tried: &tried, cwd: Path::new(&command.cwd) };
    failure::step(stage, plan.errno.load(Relaxed), &subject)
}

fn oom_score() -> CString {
    let own = std::fs::read_to_string("/proc/self/oom_score_adj").ok();
    let own: i32 = own.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    // 1000 is the kernel's maximum, proc_pid_oom_score_adj(5).
    CString::new((own + OOM_SCORE_ADDED).min(1000).to_string()).unwrap_or_default()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // What these hold is whole after each statement, so a panic elsewhere has spoilt nothing.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
