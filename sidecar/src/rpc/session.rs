//! `initialize` and `environment/*`.

use std::future::ready;
use std::sync::Arc;

use sidecar_protocol::fs::Empty;
use sidecar_protocol::session::{EnvironmentInfo, InitializeParams, InitializeResult, StatusResult};
use sidecar_protocol::{PROTOCOL_VERSION, RpcError};

use super::Reply;
use crate::audit::Event;
use crate::caller::Caller;
use crate::connection::outbox::Outbox;
use crate::health::State;
use crate::server::Shared;
use crate::session::{Attachment, Session};

/// A new session of the connection with that outbox, or one that goes on there.
pub(crate) async fn initialize(
    shared: &Arc<Shared>,
    params: &InitializeParams,
    outbox: &Outbox,
    caller: &Arc<Caller>,
) -> Result<Attachment, RpcError> {
    let client = params.client_name.as_str();
    let (attachment, event) = match &params.resume_session_id {
        Some(Some(id)) => (shared.sessions.resume(shared, id, outbox, caller).await?, "session.resume"),
        asked => {
            let resumable = asked.is_some() && caller.can_return();
            (shared.sessions.create(shared, outbox, caller, resumable)?, "session.open")
        }
    };
    tracing::info!(session = attachment.id(), client, "{event}");
    let event = Event::by(event, caller);
    shared.audit.record(&Event { session: Some(attachment.id()), client: Some(client), ..event });
    Ok(attachment)
}

/// The answer to `initialize`.
pub(crate) fn initialize_result(session: &Session) -> InitializeResult {
    InitializeResult {
        protocol_version: PROTOCOL_VERSION.to_owned(),
        session_id: session.id().to_owned(),
        environment_info: Some(session.shared().info.clone()),
    }
}

/// The session ends with this connection, whatever it was opened as.
pub(super) fn end(session: &Session) -> Reply<Empty> {
    session.end_with_connection();
    Ok(Box::pin(ready(Ok(Empty {}))))
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
