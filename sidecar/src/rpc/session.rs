//! `initialize` and `environment/*`.

use std::future::ready;
use std::sync::Arc;

use sidecar_protocol::session::{EnvironmentInfo, InitializeParams, InitializeResult, StatusResult};
use sidecar_protocol::{PROTOCOL_VERSION, RpcError};
use tokio::sync::mpsc;

use super::Reply;
use crate::audit::Event;
use crate::caller::Caller;
use crate::health::State;
use crate::server::Shared;
use crate::session::Session;

/// A new session whose notifications go to that lane.
pub(crate) fn initialize(
    shared: &Arc<Shared>,
    params: &InitializeParams,
    notifications: &mpsc::Sender<String>,
    caller: &Arc<Caller>,
) -> Result<Arc<Session>, RpcError> {
    if let Some(Some(id)) = &params.resume_session_id {
        return Err(RpcError::invalid_request(format!(
            "unknown or expired session {id:?}: sessions end with their connection, or the sidecar was restarted"
        )));
    }
    let session = shared.sessions.create(shared, notifications.clone(), caller.clone())?;
    tracing::info!(session = session.id(), client = params.client_name, "session opened");
    shared.audit.record(&Event {
        session: Some(session.id()),
        client: Some(&params.client_name),
        ..Event::by("session.open", caller)
    });
    Ok(session)
}

/// The answer to `initialize`.
pub(crate) fn initialize_result(session: &Session) -> InitializeResult {
    InitializeResult {
        protocol_version: PROTOCOL_VERSION.to_owned(),
        session_id: session.id().to_owned(),
        environment_info: Some(session.shared().info.clone()),
    }
}

pub(super) fn environment_info(session: &Session) -> Reply<EnvironmentInfo> {
    Ok(Box::pin(ready(Ok(session.shared().info.clone()))))
}

pub(super) fn environment_status(session: &Session) -> Reply<StatusResult> {
    let status = match session.shared().health.get() {
        State::Draining => "draining",
        State::Unconfined => "sandboxUnavailable",
        State::Starting | State::Ready => "ready",
    };
    Ok(Box::pin(ready(Ok(StatusResult { status: status.to_owned() }))))
}
