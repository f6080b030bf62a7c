//! `fs/*` that outlives its request: handles and watches. Each takes effect in the order received.

use std::future::ready;
use std::sync::Arc;

use sidecar_protocol::fs::{
    CloseParams, Empty, Handle, OpenParams, ReadBlockParams, Watch, WatchMissingParams, WatchParams,
    WriteBlockParams,
};
use sidecar_protocol::{MAX_BLOCK_BYTES, RpcError};
use tokio::task::JoinSet;

use super::{Params, Reply, request};
use crate::connection::call::Call;
use crate::connection::outbox::Response;
use crate::fs::{Attached, Attributes, Started, Subject};
use crate::session::Session;

pub(super) fn open(session: &Session, attached: &mut Attached, params: Params<'_>) -> Reply<Handle> {
    let OpenParams { handle_id, path, mode, permissions, modified_at_ms, sandbox } = params.parse()?;
    let request = request(session, sandbox.as_ref())?;
    let opened =
        attached.handles.open(&handle_id, path, mode, Attributes { permissions, modified_at_ms }, request)?;
    Ok(Box::pin(async move { opened.await.map(|()| Handle { handle_id }) }))
}

pub(super) fn read_block(attached: &Attached, params: Params<'_>, call: &Call) -> Reply<Response> {
    let ReadBlockParams { handle_id, offset, len } = params.parse()?;
    let wanted = usize::try_from(len).ok().filter(|len| (1..=MAX_BLOCK_BYTES).contains(len));
    let wanted = wanted
        .ok_or_else(|| RpcError::invalid_params(format!("len must be 1 to {MAX_BLOCK_BYTES}, not {len}")))?;
    let read = attached.handles.read(&handle_id, (offset, wanted), call.id(), call.outbox().clone());
    Ok(Box::pin(read))
}

pub(super) fn write_block(attached: &Attached, params: Params<'_>) -> Reply<Empty> {
    let WriteBlockParams { handle_id, offset, chunk } = params.parse()?;
    let block = params.decode("chunk", chunk).map_err(RpcError::invalid_request)?;
    if block.len() > MAX_BLOCK_BYTES {
        let message = format!("chunk must have at most {MAX_BLOCK_BYTES} bytes, not {}", block.len());
        return Err(RpcError::invalid_params(message));
    }
    let written = attached.handles.write(&handle_id, offset, block);
    Ok(Box::pin(async move { written.await.map(|()| Empty {}) }))
}

pub(super) fn close(attached: &Attached, params: Params<'_>) -> Reply<Empty> {
    let CloseParams { handle_id, discard } = params.parse()?;
    let closed = attached.handles.close(&handle_id, discard);
    Ok(Box::pin(async move { closed.await.map(|()| Empty {}) }))
}

pub(super) fn watch(
    tasks: &mut JoinSet<()>,
    call: Call,
    session: &Session,
    attached: &mut Attached,
    params: Params<'_>,
) {
    let asked = params.parse().and_then(|params: WatchParams| {
        let request = request(session, params.sandbox.as_ref())?;
        attached.watches.add(params.watch_id, Subject::Tree(params.path), request)
    });
    answer(tasks, call, asked);
}

pub(super) fn watch_missing(
    tasks: &mut JoinSet<()>,
    call: Call,
    session: &Session,
    attached: &mut Attached,
    params: Params<'_>,
) {
    let asked = params.parse().and_then(|params: WatchMissingParams| {
        let request = request(session, params.sandbox.as_ref())?;
        attached.watches.add(params.watch_id.clone(), Subject::Missing(Arc::new(params)), request)
    });
    answer(tasks, call, asked);
}

pub(super) fn unwatch(attached: &Attached, params: Params<'_>) -> Reply<Empty> {
    let Watch { watch_id } = params.parse()?;
    attached.watches.remove(watch_id);
    Ok(Box::pin(ready(Ok(Empty {}))))
}

/// The response is queued before anything is told of the watch.
fn answer(tasks: &mut JoinSet<()>, call: Call, asked: Result<Started, RpcError>) {
    tasks.spawn(async move {
        match asked {
            Ok(mut started) => {
                call.answer(started.answer().await).await;
                started.told();
            }
            Err(error) => call.answer::<()>(Err(error)).await,
        }
    });
}
