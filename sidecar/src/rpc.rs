//! Each method as params → call → response. What a call does is elsewhere.

mod attached;
mod fs;
mod process;
pub(crate) mod session;

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine as _;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sidecar_protocol::process::Sandbox;
use sidecar_protocol::{BASE64, Method, RpcError, bulk, envelope};
use sidecar_sandbox::Request;
use tokio::task::JoinSet;

use crate::connection::call::Call;
use crate::connection::outbox::{Made, Response, Room, Source};
use crate::fs::Attached;
use crate::policy;
use crate::session::Session;

/// What a request is about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Params<'a> {
    pub(crate) raw: Option<&'a RawValue>,
    /// The large text that was taken out of them.
    pub(crate) bulk: Option<&'a str>,
}

impl<'a> Params<'a> {
    fn parse<T: Deserialize<'a>>(self) -> Result<T, RpcError> {
        envelope::params(self.raw)
    }

    /// The bytes that a member stands for. The error is a message.
    fn decode(self, name: &str, member: Cow<'_, str>) -> Result<Vec<u8>, String> {
        let text = bulk::restored(member, self.bulk);
        BASE64.decode(&*text).map_err(|e| format!("{name} is not base64: {e}"))
    }

    /// Their length as they came, which a request keeps in memory, bytes.
    pub(crate) fn len(self) -> usize {
        self.raw.map_or(0, |raw| raw.get().len()) + self.bulk.map_or(0, str::len)
    }
}

/// The policy that a file operation asks for; without one, the server's own.
fn request(session: &Session, sandbox: Option<&Sandbox>) -> Result<Request, RpcError> {
    let config = &session.shared().config;
    policy::request(sandbox, config.workspace_root(), &config.sandbox)
}

/// What a handler gives back: what is left to wait for, or the error that there is already.
type Reply<T> = Result<BoxFuture<'static, Result<T, RpcError>>, RpcError>;

/// Makes a response that may be large, once there is room for it; called again with more where it was too little.
type Make = Box<dyn Fn(Room) -> BoxFuture<'static, Result<Made, RpcError>> + Send + Sync>;

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
        Method::ProcessRead => {
            serve_large(tasks, Source::Memory, process::read(session, params, call.id()), call)
        }
        Method::ProcessWrite => process::write(call, session, params),
        Method::ProcessSignal => serve(tasks, call, process::signal(session, params)),
        Method::ProcessTerminate => serve(tasks, call, process::terminate(session, params)),
        Method::ProcessCloseStdin => process::close_stdin(call, session, params),
        Method::ProcessResize => serve(tasks, call, process::resize(session, params)),
        Method::ProcessWait => serve(tasks, call, process::wait(session, params)),
        Method::ProcessList => {
            serve_large(tasks, Source::Memory, process::list(session, params, call.id()), call)
        }
        Method::ProcessSnapshot => {
            serve_large(tasks, Source::Memory, process::snapshot(session, params, call.id()), call)
        }
        Method::FsReadFile => {
            serve_large(tasks, Source::Files, fs::read_file(session, params, call.id()), call)
        }
        Method::FsWriteFile => serve(tasks, call, fs::write_file(session, params)),
        Method::FsCreateDirectory => serve(tasks, call, fs::create_directory(session, params)),
        Method::FsGetMetadata => serve(tasks, call, fs::get_metadata(session, params)),
        Method::FsReadDirectory => {
            serve_large(tasks, Source::Files, fs::read_directory(session, params, call.id()), call)
        }
        Method::FsRemove => serve(tasks, call, fs::remove(session, params)),
        Method::FsCopy => serve(tasks, call, fs::copy(session, params)),
        Method::FsRename => serve(tasks, call, fs::rename(session, params)),
        Method::FsCreateSymlink => serve(tasks, call, fs::create_symlink(session, params)),
        Method::FsCanonicalize => serve(tasks, call, fs::canonicalize(session, params)),
        Method::FsWalk => serve_large(tasks, Source::Files, fs::walk(session, params, call.id()), call),
        Method::FsOpen => serve(tasks, call, attached::open(session, attached, params)),
        Method::FsReadBlock => serve_block(tasks, attached::read_block(attached, params, &call), call),
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

/// Answers once there is something to be made an answer of, and room for it.
fn serve_large(tasks: &mut JoinSet<()>, source: Source, reply: Reply<Make>, call: Call) {
    tasks.spawn(async move {
        match outcome(reply).await {
            Ok(make) => call.answer_when_there_is_room(source, make).await,
            Err(error) => call.answer::<()>(Err(error)).await,
        }
    });
}

/// The room was had before the block was read.
fn serve_block(tasks: &mut JoinSet<()>, reply: Reply<Response>, call: Call) {
    tasks.spawn(async move { call.answer_in_room(outcome(reply).await).await });
}

async fn outcome<T>(reply: Reply<T>) -> Result<T, RpcError> {
    match reply {
        Ok(reply) => reply.await,
        Err(error) => Err(error),
    }
}
