//! Each method as params → call → response. What a call does is elsewhere.

mod attached;
mod fs;
mod process;
pub(crate) mod session;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::Serialize;
use serde_json::value::RawValue;
use sidecar_protocol::{Method, RpcError};
use tokio::task::JoinSet;

use crate::connection::call::Call;
use crate::fs::Attached;
use crate::session::Session;

type Params<'a> = Option<&'a RawValue>;

/// What a handler gives back: what is left to wait for, or the error that there is already.
type Reply<T> = Result<BoxFuture<'static, Result<T, RpcError>>, RpcError>;

/// A response that is encoded already, for its own request.
struct Encoded(String);

/// Serves one request of an open session. What depends on the order of arrival happens here; the rest, as a task.
pub(crate) fn dispatch(
    session: &Arc<Session>,
    method: Method,
    params: Params<'_>,
    call: Call,
    attached: &mut Attached,
    tasks: &mut JoinSet<()>,
) {
    match method {
        // The connection's own.
        Method::Initialize => {}
        Method::EnvironmentInfo => serve(tasks, call, session::environment_info(session)),
        Method::EnvironmentStatus => serve(tasks, call, session::environment_status(session)),
        Method::SessionEnd => serve(tasks, call, session::end(session)),
        Method::ProcessStart => process::start(call, session, params),
        Method::ProcessRead => serve(tasks, call, process::read(session, params)),
        Method::ProcessWrite => serve(tasks, call, process::write(session, params)),
        Method::ProcessSignal => serve(tasks, call, process::signal(session, params)),
        Method::ProcessTerminate => serve(tasks, call, process::terminate(session, params)),
        Method::ProcessCloseStdin => serve(tasks, call, process::close_stdin(session, params)),
        Method::ProcessResize => serve(tasks, call, process::resize(session, params)),
        Method::ProcessWait => serve(tasks, call, process::wait(session, params)),
        Method::ProcessList => serve(tasks, call, process::list(session, params)),
        Method::ProcessSnapshot => serve(tasks, call, process::snapshot(session, params)),
        Method::FsReadFile => serve_encoded(tasks, fs::read_file(session, params, call.id()), call),
        Method::FsWriteFile => serve(tasks, call, fs::write_file(session, params)),
        Method::FsCreateDirectory => serve(tasks, call, fs::create_directory(session, params)),
        Method::FsGetMetadata => serve(tasks, call, fs::get_metadata(session, params)),
        Method::FsReadDirectory => serve(tasks, call, fs::read_directory(session, params)),
        Method::FsRemove => serve(tasks, call, fs::remove(session, params)),
        Method::FsCopy => serve(tasks, call, fs::copy(session, params)),
        Method::FsRename => serve(tasks, call, fs::rename(session, params)),
        Method::FsCreateSymlink => serve(tasks, call, fs::create_symlink(session, params)),
        Method::FsCanonicalize => serve(tasks, call, fs::canonicalize(session, params)),
        Method::FsWalk => serve(tasks, call, fs::walk(session, params)),
        Method::FsOpen => serve(tasks, call, attached::open(session, attached, params)),
        Method::FsReadBlock => serve_encoded(tasks, attached::read_block(attached, params, call.id()), call),
        Method::FsWriteBlock => serve(tasks, call, attached::write_block(attached, params)),
        Method::FsClose => serve(tasks, call, attached::close(attached, params)),
        Method::FsWatchMissing => attached::watch_missing(tasks, call, session, attached, params),
        Method::FsWatch => attached::watch(tasks, call, session, attached, params),
        Method::FsUnwatch => serve(tasks, call, attached::unwatch(attached, params)),
    }
}

/// Answers once there is an answer.
fn serve<T: Serialize + Send + 'static>(tasks: &mut JoinSet<()>, call: Call, reply: Reply<T>) {
    tasks.spawn(async move { call.answer(outcome(reply).await).await });
}

fn serve_encoded(tasks: &mut JoinSet<()>, reply: Reply<Encoded>, call: Call) {
    tasks.spawn(async move { call.answer_encoded(outcome(reply).await.map(|Encoded(text)| text)).await });
}

async fn outcome<T>(reply: Reply<T>) -> Result<T, RpcError> {
    match reply {
        Ok(reply) => reply.await,
        Err(error) => Err(error),
    }
}
