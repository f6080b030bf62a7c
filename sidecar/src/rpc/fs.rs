//! `fs/*`.

use std::future::ready;
use std::sync::Arc;

use base64::Engine as _;
use futures_util::future::BoxFuture;
use sidecar_protocol::fs::{
    CanonicalizeResult, CopyParams, CreateDirectoryParams, CreateSymlinkParams, Empty, Metadata, PathParams,
    RemoveParams, RenameParams, WalkParams, WriteFileParams, WriteFileResult,
};
use sidecar_protocol::path::Spelling;
use sidecar_protocol::process::Sandbox;
use sidecar_protocol::{BASE64, RequestId, RpcError, WirePath, envelope};
use sidecar_sandbox::Request;

use super::{Make, Params, Reply, request};
use crate::connection::outbox::{Made, Room};
use crate::fs::{self, Attributes, Confined, FsError, NewContent, Removal, Symlinks};
use crate::server::Shared;
use crate::session::Session;

pub(super) fn read_file(session: &Arc<Session>, params: Params<'_>, id: RequestId) -> Reply<Make> {
    let PathParams { path, sandbox, follow_symlinks } = params.parse()?;
    let symlinks = Symlinks::from_wire(follow_symlinks);
    large(session, sandbox, path.spelling(), move |confined, room| {
        fs::read_file(confined, path.as_path(), symlinks, &id, room)
    })
}

pub(super) fn write_file(session: &Arc<Session>, params: Params<'_>) -> Reply<WriteFileResult> {
    let WriteFileParams {
        path,
        data_base64,
        mode,
        permissions,
        modified_at_ms,
        create_parents,
        sandbox,
        follow_symlinks,
    } = params.parse()?;
    let bytes = params.decode("dataBase64", data_base64).map_err(RpcError::invalid_request)?;
    let attributes = Attributes { permissions, modified_at_ms };
    let content = NewContent { bytes, mode, attributes, create_parents };
    let symlinks = Symlinks::from_wire(follow_symlinks);
    confined(session, sandbox, path.spelling(), move |confined| {
        let written = fs::write_file(confined, path.as_path(), &content, symlinks);
        written.map(|atomic| WriteFileResult { atomic })
    })
}

pub(super) fn create_directory(session: &Arc<Session>, params: Params<'_>) -> Reply<Empty> {
    let CreateDirectoryParams { path, recursive, permissions, sandbox, follow_symlinks } = params.parse()?;
    let (recursive, symlinks) = (recursive.unwrap_or(true), Symlinks::from_wire(follow_symlinks));
    confined(session, sandbox, path.spelling(), move |confined| {
        fs::create_directory(confined, path.as_path(), recursive, permissions, symlinks).map(|()| Empty {})
    })
}

pub(super) fn get_metadata(session: &Arc<Session>, params: Params<'_>) -> Reply<Metadata> {
    let PathParams { path, sandbox, follow_symlinks } = params.parse()?;
    let symlinks = Symlinks::from_wire(follow_symlinks);
    let request = request(session, sandbox.as_ref())?;
    let looking = session.shared().files.looking(&request);
    if let Some(found) = looking.and_then(|looking| fs::cached_metadata(&looking, path.as_path(), symlinks)) {
        return Ok(Box::pin(ready(Ok(found))));
    }
    Ok(run(session.shared(), request, path.spelling(), move |confined| {
        fs::metadata(confined, path.as_path(), symlinks)
    }))
}

pub(super) fn read_directory(session: &Arc<Session>, params: Params<'_>, id: RequestId) -> Reply<Make> {
    let PathParams { path, sandbox, follow_symlinks: _ } = params.parse()?;
    large(session, sandbox, path.spelling(), move |confined, room| {
        fs::read_directory(confined, path.as_path()).map(|read| room.put(envelope::response(&id, &read)))
    })
}

pub(super) fn remove(session: &Arc<Session>, params: Params<'_>) -> Reply<Empty> {
    let RemoveParams { path, recursive, force, sandbox, follow_symlinks } = params.parse()?;
    if follow_symlinks == Some(true) {
        return Err(RpcError::invalid_request(format!("fs/remove never follows a symlink: {path}")));
    }
    let how = Removal { recursive: recursive.unwrap_or(true), force: force.unwrap_or(true) };
    confined(session, sandbox, path.spelling(), move |confined| {
        fs::remove(confined, path.as_path(), how).map(|()| Empty {})
    })
}

pub(super) fn copy(session: &Arc<Session>, params: Params<'_>) -> Reply<Empty> {
    let CopyParams { source_path, destination_path, recursive, sandbox } = params.parse()?;
    confined(session, sandbox, source_path.spelling(), move |confined| {
        fs::copy(confined, source_path.as_path(), destination_path.as_path(), recursive).map(|()| Empty {})
    })
}

pub(super) fn rename(session: &Arc<Session>, params: Params<'_>) -> Reply<Empty> {
    let RenameParams { source_path, destination_path, overwrite, sandbox } = params.parse()?;
    confined(session, sandbox, source_path.spelling(), move |confined| {
        fs::rename(confined, source_path.as_path(), destination_path.as_path(), overwrite).map(|()| Empty {})
    })
}

pub(super) fn create_symlink(session: &Arc<Session>, params: Params<'_>) -> Reply<Empty> {
    let CreateSymlinkParams { path, target, target_base64, overwrite, sandbox } = params.parse()?;
    let target = match target_base64 {
        Some(exact) => BASE64
            .decode(exact)
            .map_err(|e| RpcError::invalid_params(format!("targetBase64 is not base64: {e}")))?,
        None => target.into_bytes(),
    };
    if target.is_empty() || target.contains(&0) {
        return Err(RpcError::invalid_params("target must not be empty or hold a NUL byte"));
    }
    confined(session, sandbox, path.spelling(), move |confined| {
        fs::create_symlink(confined, path.as_path(), &target, overwrite).map(|()| Empty {})
    })
}

pub(super) fn canonicalize(session: &Arc<Session>, params: Params<'_>) -> Reply<CanonicalizeResult> {
    let PathParams { path, sandbox, follow_symlinks: _ } = params.parse()?;
    confined(session, sandbox, path.spelling(), move |confined| {
        let real = fs::canonicalize(confined, path.as_path())?;
        Ok(CanonicalizeResult { path: WirePath::new(real, path.spelling()) })
    })
}

pub(super) fn walk(session: &Arc<Session>, params: Params<'_>, id: RequestId) -> Reply<Make> {
    let WalkParams { path, options, sandbox } = params.parse()?;
    large(session, sandbox, path.spelling(), move |confined, room| {
        fs::walk(confined, path.as_path(), &options, path.spelling())
            .map(|walked| room.put(envelope::response(&id, &walked)))
    })
}

/// Runs a file operation under the policy that the request asks for. Paths in errors are spelled as in the request.
fn confined<T: Send + 'static>(
    session: &Arc<Session>,
    sandbox: Option<Sandbox>,
    spelling: Spelling,
    operation: impl FnOnce(&Confined) -> Result<T, FsError> + Send + 'static,
) -> Reply<T> {
    Ok(run(session.shared(), request(session, sandbox.as_ref())?, spelling, operation))
}

fn run<T: Send + 'static>(
    shared: &Arc<Shared>,
    request: Request,
    spelling: Spelling,
    operation: impl FnOnce(&Confined) -> Result<T, FsError> + Send + 'static,
) -> BoxFuture<'static, Result<T, RpcError>> {
    let shared = shared.clone();
    Box::pin(async move {
        let run = shared.files.run(request, move |confined| {
            operation(confined).map_err(|error| error.into_rpc(spelling, confined.prepared()))
        });
        run.await
    })
}

/// The same for what only looks, and whose response may be large: it is made on the confined thread, once there is room.
fn large(
    session: &Arc<Session>,
    sandbox: Option<Sandbox>,
    spelling: Spelling,
    operation: impl Fn(&Confined, Room) -> Result<Made, FsError> + Send + Sync + 'static,
) -> Reply<Make> {
    let shared = session.shared().clone();
    let request = request(session, sandbox.as_ref())?;
    let operation = Arc::new(operation);
    let make: Make = Box::new(move |room| {
        let operation = operation.clone();
        run(&shared, request.clone(), spelling, move |confined| operation(confined, room))
    });
    Ok(Box::pin(ready(Ok(make))))
}
