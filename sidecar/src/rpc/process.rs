//! `process/*`.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::Signal as OsSignal;
use serde::Serialize;
use sidecar_protocol::fs::Empty;
use sidecar_protocol::process::{
    CloseStdinResult, ListParams, ListResult, ProcessParams, ReadParams, ResizeParams, Signal, SignalParams,
    Size, StartParams, TerminateParams, TerminateResult, WaitParams, WaitResult, WriteParams, WriteResult,
    WriteStatus,
};
use sidecar_protocol::{RequestId, RpcError, envelope};

use super::{Make, Params, Reply};
use crate::connection::call::Call;
use crate::process::account::Attempt;
use crate::process::launch::Launch;
use crate::process::{Answer, Input, Order, Phase, Process, unknown};
use crate::session::Session;

/// The id is taken now; the response is queued before the process is followed, and so before its first output. A task of
/// the session: what was asked for is started, also where the connection does not live to see it.
pub(super) fn start(call: Call, session: &Arc<Session>, params: Params<'_>) {
    let launch = reserve(session, params);
    session.tasks().spawn(async move {
        let started = match launch {
            Ok((launch, attempt)) => launch.run(attempt).await,
            Err(error) => Err(error),
        };
        match started {
            Ok(started) => {
                call.answer(Ok(started.result())).await;
                started.follow();
            }
            Err(error) => call.answer::<()>(Err(error)).await,
        }
    });
}

fn reserve(session: &Arc<Session>, params: Params<'_>) -> Result<(Launch, Attempt), RpcError> {
    let params: StartParams = params.parse().inspect_err(|error| Attempt::unreadable(session, error))?;
    let attempt = Attempt::new(session, &params);
    match Launch::reserve(session, params) {
        Ok(launch) => Ok((launch, attempt)),
        Err(error) => {
            attempt.refused(&error);
            Err(error)
        }
    }
}

pub(super) fn read(session: &Session, params: Params<'_>, id: RequestId) -> Reply<Make> {
    let params: ReadParams = params.parse()?;
    let process = session.find(&params.process_id).ok_or_else(|| unknown(&params.process_id))?;
    Ok(Box::pin(async move {
        process.news(&params).await?;
        Ok(large(move || envelope::response(&id, &process.read(&params))))
    }))
}

/// A response that takes nothing but the work of encoding it.
fn large(encode: impl Fn() -> String + Send + Sync + 'static) -> Make {
    Box::new(move |room| Box::pin(ready(Ok(room.put(encode())))))
}

pub(super) fn write(call: Call, session: &Session, params: Params<'_>) {
    let input = || {
        let WriteParams { process_id, chunk, write_id } = params.parse()?;
        let bytes = params.decode("chunk", chunk.into()).map_err(RpcError::invalid_params)?;
        Ok((process_id, Input::Bytes(bytes, write_id)))
    };
    queue::<WriteResult>(call, session, params.len(), input());
}

pub(super) fn close_stdin(call: Call, session: &Session, params: Params<'_>) {
    let input = params.parse().map(|ProcessParams { process_id }| (process_id, Input::End));
    queue::<CloseStdinResult>(call, session, params.len(), input);
}

/// The input is queued now, behind that of earlier requests. Whoever writes it answers: a task that waits for that would
/// be one more to be woken for each key that is typed.
fn queue<T>(call: Call, session: &Session, bytes: usize, input: Result<(String, Input), RpcError>)
where
    T: From<WriteStatus> + Serialize + Send + 'static,
{
    let queued = input
        .and_then(|(process_id, input)| Ok((session.queue_input(bytes)?, session.find(&process_id), input)));
    let (share, process, input) = match queued {
        Ok(queued) => queued,
        Err(error) => return call.answer_now::<T>(Err(error)),
    };
    let answer = |status: WriteStatus| call.answer_now::<T>(Ok(status.into()));
    match process {
        Some(process) => process.input(input, share, Answer::new(answer)),
        None => answer(WriteStatus::UnknownProcess),
    }
}

/// Given now; one that is being launched gets it first thing. A process that is gone needs no signal.
pub(super) fn signal(session: &Session, params: Params<'_>) -> Reply<Empty> {
    let params: SignalParams = params.parse()?;
    let process = reach(session, &params.process_id, params.pid);
    if let Some(process) = &process {
        process.order(Order::Signal(number(params.signal)));
    }
    Ok(Box::pin(async move {
        if let Some(process) = process {
            process.launched().await;
        }
        Ok(Empty {})
    }))
}

/// Given now, and answered at once; the exit is told when it comes.
pub(super) fn terminate(session: &Session, params: Params<'_>) -> Reply<TerminateResult> {
    let params: TerminateParams = params.parse()?;
    let process = reach(session, &params.process_id, params.pid);
    let grace = session.shared().config.limits.terminate_grace;
    let grace = params.grace_ms.map_or(grace, Duration::from_millis).min(MAX_GRACE);
    let Some(process) = process else { return Ok(Box::pin(ready(Ok(TerminateResult { running: false })))) };
    let phase = process.phase();
    process.order(Order::Terminate { grace, descendants: params.descendants });
    Ok(Box::pin(async move {
        let running = match phase {
            Phase::Starting => process.launched().await != Phase::Failed,
            phase => phase == Phase::Running,
        };
        Ok(TerminateResult { running })
    }))
}

/// An order, as a signal is: it waits behind no write.
pub(super) fn resize(session: &Session, params: Params<'_>) -> Reply<Empty> {
    let ResizeParams { process_id, rows, cols } = params.parse()?;
    if rows == 0 || cols == 0 {
        return Err(RpcError::invalid_params("rows and cols must be at least 1"));
    }
    let process = session.find(&process_id).ok_or_else(|| unknown(&process_id))?;
    if !process.is_terminal() {
        return Err(RpcError::invalid_request(format!("process {process_id} has no terminal")));
    }
    Ok(Box::pin(async move { process.resize(Size { rows, cols }).await.map(|()| Empty {}) }))
}

pub(super) fn wait(session: &Session, params: Params<'_>) -> Reply<WaitResult> {
    let params: WaitParams = params.parse()?;
    let process = session.find(&params.process_id).ok_or_else(|| unknown(&params.process_id))?;
    Ok(Box::pin(async move { process.wait(params.timeout_ms.map(Duration::from_millis)).await }))
}

pub(super) fn list(session: &Arc<Session>, params: Params<'_>, id: RequestId) -> Reply<Make> {
    let ListParams { all } = params.parse()?;
    let session = session.clone();
    Ok(Box::pin(ready(Ok(large(move || {
        let processes = if all { of_the_caller(&session) } else { session.processes() };
        let mut processes: Vec<_> = processes.iter().filter_map(|process| process.summary()).collect();
        processes.sort_by_key(|process| process.started_at_ms);
        envelope::response(&id, &ListResult { processes })
    })))))
}

/// Whoever opened this session could have opened the others.
fn of_the_caller(session: &Session) -> Vec<Arc<Process>> {
    session.shared().sessions.processes_of(&session.caller().principal)
}

/// A process of this session; with a pid, of any session of the same caller. The id must fit too, for a pid may have
/// come to stand for another process since it was looked up.
fn reach(session: &Session, process_id: &str, pid: Option<i32>) -> Option<Arc<Process>> {
    let Some(pid) = pid else { return session.find(process_id) };
    of_the_caller(session).into_iter().find(|process| {
        let summary = process.summary();
        summary.is_some_and(|summary| summary.process_id == process_id && summary.pid == Some(pid))
    })
}

pub(super) fn snapshot(session: &Session, params: Params<'_>, id: RequestId) -> Reply<Make> {
    let params: ProcessParams = params.parse()?;
    let process = session.find(&params.process_id).ok_or_else(|| unknown(&params.process_id))?;
    Ok(Box::pin(async move {
        process.ran().await?;
        Ok(large(move || envelope::response(&id, &process.snapshot())))
    }))
}

/// A longer grace is taken for a mistake.
const MAX_GRACE: Duration = Duration::from_secs(60 * 60);

fn number(signal: Signal) -> i32 {
    let signal = match signal {
        Signal::Interrupt => OsSignal::SIGINT,
        Signal::Terminate => OsSignal::SIGTERM,
        Signal::Kill => OsSignal::SIGKILL,
        Signal::Hangup => OsSignal::SIGHUP,
        Signal::Quit => OsSignal::SIGQUIT,
        Signal::User1 => OsSignal::SIGUSR1,
        Signal::User2 => OsSignal::SIGUSR2,
        Signal::Stop => OsSignal::SIGSTOP,
        Signal::Continue => OsSignal::SIGCONT,
    };
    signal as i32
}
