//! The first words on a connection.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::value::RawValue;
use sidecar_protocol::session::{InitializeParams, InitializeResult};
use sidecar_protocol::{Incoming, Method, RequestId, envelope, method};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::error::Error;
use crate::transport::{Connection, Received, Sent};

/// The id of `initialize`; those of the callers' requests are higher.
const ID: i64 = 0;

/// What the server said of itself.
#[derive(Debug)]
pub(crate) struct Greeting {
    pub(crate) server: InitializeResult,
    /// The same as it came.
    pub(crate) raw: Box<RawValue>,
}

/// Says `initialize` and `initialized`, within a time. `resume` is the `resumeSessionId`; see [`InitializeParams`].
/// `received` are the acknowledgements of a client that comes back: what it has is not sent again.
pub(super) async fn shake(
    connection: &mut Connection,
    client_name: &str,
    resume: Option<Option<String>>,
    received: Vec<Utf8Bytes>,
    after: Duration,
) -> Result<Greeting, Error> {
    let params = InitializeParams { client_name: client_name.to_owned(), resume_session_id: resume };
    let said = async {
        let text = envelope::request(&RequestId::Int(ID), Method::Initialize.name(), &params);
        let sent = connection.outgoing.send(Sent::Text(text.into())).await;
        // Where it could not be sent, what came instead of an answer says why: the words of a program that failed.
        let greeting = answer(connection).await;
        if let (Err(unsent), Err(_)) = (&sent, &greeting) {
            tracing::debug!(unsent, "initialize could not be sent");
        }
        let greeting = greeting?;
        for text in received {
            connection.outgoing.feed(Sent::Text(text)).await.map_err(lost)?;
        }
        let text = envelope::notification(method::INITIALIZED, &serde_json::Map::new());
        connection.outgoing.send(Sent::Text(text.into())).await.map_err(lost)?;
        Ok(greeting)
    };
    tokio::time::timeout(after, said).await.unwrap_or(Err(Error::InitializeTimeout { after }))
}

async fn answer(connection: &mut Connection) -> Result<Greeting, Error> {
    let method = Method::Initialize.name();
    loop {
        let text = match connection.incoming.next().await {
            Some(Ok(Received::Text(text))) => text,
            Some(Ok(Received::Alive)) => continue,
            Some(Ok(Received::Close { reason, .. })) if !reason.is_empty() => {
                return Err(lost(format!("the server closed it: {reason}")));
            }
            Some(Ok(Received::Close { .. })) | None => return Err(lost("the server closed it".to_owned())),
            Some(Err(reason)) => return Err(lost(reason)),
        };
        let message = envelope::decode(&text)
            .map_err(|e| lost(format!("the server broke the protocol: {e}; is it a sandbox-sidecar?")))?;
        return match message {
            Incoming::Response { id: RequestId::Int(ID), outcome: Ok(raw) } => {
                let server =
                    serde_json::from_str(raw.get()).map_err(|cause| Error::Answer { method, cause })?;
                Ok(Greeting { server, raw: raw.to_owned() })
            }
            Incoming::Response { id: RequestId::Int(ID), outcome: Err(error) } => {
                Err(Error::Rpc { method, error })
            }
            // How a server that speaks lines refuses a connection.
            Incoming::Response { id: RequestId::NONE, outcome: Err(error) } => {
                Err(lost(format!("the server refused it: {}", error.message)))
            }
            _ => continue,
        };
    }
}

fn lost(reason: String) -> Error {
    Error::ConnectionLost { reason: reason.into() }
}
