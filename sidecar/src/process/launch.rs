//! From a `process/start` to a running command: validation and reservation at once, the launch off the async threads.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use sidecar_protocol::path::Spelling;
use sidecar_protocol::process::{StartParams, StartResult, Stream};
use sidecar_protocol::{ErrorData, ErrorKind, RpcError, WirePath};
use sidecar_sandbox::LaunchErrorKind;
use sidecar_sandbox::{Command, Io, LaunchError, Launched, Prepared, Request, is_shortage};
use tokio::sync::mpsc;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::account::{Account, Attempt};
use super::allowance::Allowance;
use super::pump::Pump;
use super::source::Sources;
use super::watched::beside;
use super::{Order, Phase, Process, census, environment, validate};
use crate::policy;
use crate::session::Session;

/// A launch whose id is taken.
pub(crate) struct Launch {
    reservation: Reservation,
    orders: mpsc::UnboundedReceiver<Order>,
    request: Request,
    command: Command,
    allowance: Allowance,
    cwd: WirePath,
}

/// A started command that nobody follows yet. Dropping it kills it.
pub(crate) struct Started {
    reservation: Reservation,
    pump: Pump,
    allowance: Allowance,
    result: StartResult,
}

/// Gives the id back unless the process came up. The session does not count as ended meanwhile.
struct Reservation {
    session: Arc<Session>,
    process: Arc<Process>,
    started: bool,
    _token: TaskTrackerToken,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if !self.started {
            self.session.forget(&self.process);
            self.process.progressed(|progress| progress.phase = Phase::Failed);
        }
    }
}

impl Launch {
    /// Checks the request and takes its id, so that what the client sends next finds it.
    pub(crate) fn reserve(session: &Arc<Session>, params: StartParams) -> Result<Launch, RpcError> {
        validate::check(&params)?;
        let allowance = Allowance::new(&params)?;
        let config = &session.shared().config;
        let env = environment::build(&config.launch_env, params.env_policy.as_ref(), &params.env)?;
        validate::environment(&env)?;
        let command = Command {
            argv: validate::argv(&params.argv)?,
            arg0: params.arg0.as_deref().map(|arg0| validate::c_string("arg0", arg0)).transpose()?,
            env: env.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
            cwd: params.cwd.as_path().to_owned(),
            stdio: validate::stdio(&params),
            limits: allowance.rlimits(),
        };
        let request = policy::request(params.sandbox.as_ref(), params.cwd.as_path(), &config.sandbox)?;
        let (order, orders) = mpsc::unbounded_channel();
        let process = Arc::new(Process::new(&params, &config.limits, order));
        session.reserve(&process)?;
        let reservation = Reservation {
            session: session.clone(),
            process,
            started: false,
            _token: session.tasks().token(),
        };
        Ok(Launch { reservation, orders, request, command, allowance, cwd: params.cwd })
    }

    /// Starts the command.
    pub(crate) async fn run(self, mut attempt: Attempt) -> Result<Started, RpcError> {
        let Launch { reservation, orders, request, command, allowance, cwd } = self;
        let session = reservation.session.clone();
        let sandbox = session.shared().sandbox.clone();
        let spelling = cwd.clone();
        attempt.environment(&command.env);
        let launched = session.tasks().spawn_blocking(move || {
            let launch = || {
                attempt.permit()?;
                let prepared = sandbox.prepare(&request).map_err(|e| policy::refusal(&e))?;
                let launched = sandbox.launch(&prepared, command).map_err(|e| failure(&e, &spelling))?;
                Ok((prepared, launched))
            };
            match launch() {
                Ok((prepared, launched)) => {
                    let account = attempt.started(&launched.receipt)?;
                    Ok((prepared, launched, account))
                }
                Err(error) => {
                    attempt.refused(&error);
                    Err(error)
                }
            }
        });
        let (prepared, launched, account) = session
            .shared()
            .relay
            .carry(launched)
            .await
            .map_err(|e| RpcError::internal(format!("the launch was lost: {e}")))??;
        reservation
            .started(orders, prepared, launched, allowance, account, cwd.as_path())
            .map_err(|e| unfollowed(&e))
    }
}

impl Reservation {
    fn started(
        self,
        orders: mpsc::UnboundedReceiver<Order>,
        prepared: Arc<Prepared>,
        launched: Launched,
        allowance: Allowance,
        account: Account,
        cwd: &Path,
    ) -> io::Result<Started> {
        let enforcement = policy::enforcement(&launched.receipt);
        let sandbox_type = if launched.receipt.status == "none" { "none" } else { "linuxSeccomp" };
        let (stdin, sources) = streams(launched.io)?;
        let sandboxed = (launched.receipt.status != "none").then(|| (prepared, cwd.to_owned()));
        let _ = self.process.about.running.set((launched.child.pid(), launched.child.tree()));
        let process = self.process.clone();
        let pump = Pump::new(process, launched.child, sources, orders, allowance, account, sandboxed)?;
        self.process.stdin.open(stdin);
        let result = StartResult {
            process_id: self.process.id.clone(),
            sandbox_type: Some(sandbox_type.to_owned()),
            enforcement: Some(enforcement),
        };
        Ok(Started { reservation: self, pump, allowance, result })
    }
}

impl Started {
    /// The answer to the request.
    pub(crate) fn result(&self) -> &StartResult {
        &self.result
    }

    /// Follows the command from now on. Its output goes out after what has been queued before.
    pub(crate) fn follow(self) {
        let Started { mut reservation, pump, allowance, .. } = self;
        reservation.started = true;
        let process = reservation.process.clone();
        process.progressed(|progress| progress.phase = Phase::Running);
        if let (Some(most), Some(tree)) = (allowance.processes(), process.tree()) {
            reservation.session.tasks().spawn(census::watch(process, tree, most));
        }
        reservation.session.tasks().spawn(pump.run());
    }
}

fn streams(io: Io) -> io::Result<(Option<OwnedFd>, Sources)> {
    match io {
        Io::Pipes { stdin, stdout, stderr } => {
            Ok((stdin, Sources::new([(Stream::Stdout, stdout), (Stream::Stderr, stderr)])?))
        }
        // The runtime takes a descriptor once, and reading and writing are two tasks.
        Io::Pty(master) => Ok((Some(beside(master.as_fd())?), Sources::new([(Stream::Pty, master)])?)),
    }
}

/// The answer where the runtime cannot watch what was started.
fn unfollowed(error: &io::Error) -> RpcError {
    let short = error.raw_os_error().is_some_and(is_shortage);
    RpcError::internal(format!("the process cannot be followed: {error}")).with_data(&ErrorData {
        kind: Some(if short { ErrorKind::Limit } else { ErrorKind::Os }),
        errno: error.raw_os_error(),
        ..ErrorData::default()
    })
}

/// The answer to a launch that failed. Paths are spelled as the request spelled them.
fn failure(error: &LaunchError, cwd: &WirePath) -> RpcError {
    let path = error.path.as_ref().map(|path| {
        let spelling = if path == cwd.as_path() { cwd.spelling() } else { Spelling::Plain };
        spelling.write(path)
    });
    RpcError::internal(error.to_string()).with_data(&ErrorData {
        kind: Some(match error.kind {
            LaunchErrorKind::ProgramNotFound => ErrorKind::SpawnNotFound,
            LaunchErrorKind::CwdNotFound => ErrorKind::CwdNotFound,
            LaunchErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
            LaunchErrorKind::NotExecutable => ErrorKind::NotExecutable,
            LaunchErrorKind::SandboxUnavailable => ErrorKind::SandboxUnavailable,
            LaunchErrorKind::Limit => ErrorKind::Limit,
            LaunchErrorKind::Os => ErrorKind::Os,
        }),
        stage: Some(error.stage.name().to_owned()),
        errno: (error.errno != 0).then_some(error.errno),
        path,
        ..ErrorData::default()
    })
}
