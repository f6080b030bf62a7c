//! Drives one connection over any transport: reads until it ends, then ends what it started while the last frames go
//! out.

use std::future::Future;
use std::ops::Deref;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use crate::caller::Caller;
use crate::connection::Connection;
use crate::connection::outbox::{Close, Outbox, Outgoing};
use crate::server::Shared;

/// How long the peer may take for the last frames, and to hang up after them.
const LINGER: Duration = Duration::from_secs(2);

/// What came from the peer.
pub(super) enum Received<T> {
    Message(T),
    /// A frame that is no text; why not.
    Invalid(String),
    /// Something of the transport's own.
    Nothing,
    /// The answer to a probe.
    Alive,
    /// The peer is gone, or has broken the transport: then it is told why.
    End(Option<Close>),
}

/// The reading half of a transport.
pub(super) trait Reader: Send + 'static {
    type Text: Deref<Target = str> + Send;
    type Writer: Writer;

    fn next(&mut self) -> impl Future<Output = Received<Self::Text>> + Send;

    /// After the last frame was sent: waits for the peer to hang up, where that makes sure that it is read.
    fn farewell(self, writer: Self::Writer) -> impl Future<Output = ()> + Send;
}

/// The writing half of a transport.
pub(super) trait Writer: Sized + Send + 'static {
    /// Sends what the outbox holds, to its last item. `None`: the peer is gone, or silent.
    fn run(self, outgoing: Outgoing) -> impl Future<Output = Option<Self>> + Send;
}

/// The close code of a message that is too large.
const TOO_LARGE: u16 = 1009;

/// The close code of a client that does not keep to what is asked of it.
const POLICY: u16 = 1008;

/// Serves a connection to its end; returns when its last process is gone.
pub(super) async fn serve<R: Reader>(
    shared: Arc<Shared>,
    (mut reader, writer): (R, R::Writer),
    (outbox, outgoing): (Outbox, Outgoing),
    caller: Caller,
) {
    let mut writing = tokio::spawn(writer.run(outgoing));
    let (principal, peer) = (caller.principal.clone(), caller.peer.to_string());
    let has_to_begin = caller.has_to_begin();
    let mut connection = Connection::new(shared.clone(), outbox.clone(), caller);
    let limit = shared.config.limits.initialize;
    let mut late = pin!(tokio::time::sleep(limit));
    let close = loop {
        let received = tokio::select! {
            () = shared.stop.cancelled() => break Some(Close::going_away()),
            () = outbox.ended() => break None,
            // Somebody else has taken the session.
            () = outbox.closing() => break None,
            () = &mut late, if has_to_begin && !connection.is_open() => {
                shared.metrics.requests.rejected("initializeSeconds");
                break Some(not_begun(limit));
            }
            received = reader.next() => received,
        };
        match received {
            Received::Message(text) => {
                if let Err(close) = connection.receive(&text).await {
                    break Some(close);
                }
            }
            Received::Invalid(why) => connection.invalid_frame(why).await,
            Received::Nothing => {}
            Received::Alive => outbox.heard().answered(),
            Received::End(close) => break close,
        }
    };
    tracing::info!(
        principal,
        peer,
        reason = close.as_ref().map_or("the client is gone", |c| c.reason.as_str()),
        "disconnected"
    );
    if close.as_ref().is_some_and(|close| close.code == TOO_LARGE) {
        shared.metrics.requests.rejected("messageBytes");
    }
    let orderly = close.is_some();
    outbox.close(close.unwrap_or_else(Close::normal));
    // The farewell and the end of the launches have nothing to wait for in each other.
    let farewell = async {
        let Ok(Ok(Some(writer))) = tokio::time::timeout(LINGER, &mut writing).await else {
            writing.abort();
            return;
        };
        if orderly {
            let _ = tokio::time::timeout(LINGER, reader.farewell(writer)).await;
        }
    };
    tokio::join!(connection.end(), farewell);
}

fn not_begun(limit: Duration) -> Close {
    let limit = limit.as_secs();
    Close { code: POLICY, reason: format!("no initialized within {limit} s (limits.initializeSeconds)") }
}

/// A message that is too large ends its connection.
pub(super) fn too_large(max: usize) -> Close {
    Close {
        code: TOO_LARGE,
        reason: format!("a message is over the limit of {max} bytes (limits.messageBytes)"),
    }
}
