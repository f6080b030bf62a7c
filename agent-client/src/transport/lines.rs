//! One message per line: unix sockets, stdin and stdout, programs.

use std::path::Path;

use futures_util::{SinkExt, StreamExt as _, stream};
use sidecar_protocol::MAX_MESSAGE_BYTES;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio_tungstenite::tungstenite::Utf8Bytes;
use tokio_util::codec::{FramedRead, FramedWrite, LinesCodec, LinesCodecError};

use super::{Connection, Incoming, Outgoing, Received, Sent};
use crate::error::Error;

/// Connects to a unix socket.
pub(super) async fn connect(path: &Path) -> Result<Connection, Error> {
    let stream = UnixStream::connect(path)
        .await
        .map_err(|cause| Error::Unreachable { url: format!("unix://{}", path.display()), cause })?;
    let (reader, writer) = stream.into_split();
    Ok(Connection { incoming: incoming(reader), outgoing: outgoing(writer), pings: false })
}

/// The connection of whoever started this program.
pub(crate) fn over_stdio() -> Connection {
    Connection {
        incoming: incoming(tokio::io::stdin()),
        outgoing: outgoing(tokio::io::stdout()),
        pings: false,
    }
}

/// The messages that come, blank lines skipped.
pub(super) fn incoming(reader: impl AsyncRead + Send + 'static) -> Incoming {
    let lines = FramedRead::new(reader, LinesCodec::new_with_max_length(MAX_MESSAGE_BYTES));
    Box::pin(lines.filter_map(async |line| match line {
        Ok(line) if line.trim().is_empty() => None,
        Ok(line) => Some(Ok(Received::Text(Utf8Bytes::from(line)))),
        Err(LinesCodecError::MaxLineLengthExceeded) => {
            Some(Err(format!("a message of more than {MAX_MESSAGE_BYTES} bytes")))
        }
        Err(LinesCodecError::Io(e)) => Some(Err(e.to_string())),
    }))
}

/// The messages that go out. There is no ping, and no reason to be given at the end.
pub(super) fn outgoing(writer: impl AsyncWrite + Send + 'static) -> Outgoing {
    let sink = FramedWrite::new(writer, LinesCodec::new());
    let sink = SinkExt::<Utf8Bytes>::sink_map_err(sink, |e: LinesCodecError| e.to_string());
    Box::pin(sink.with_flat_map(|sent| {
        let line = match sent {
            Sent::Text(text) => Some(Ok(one_line(text))),
            Sent::Ping | Sent::Close(..) => None,
        };
        stream::iter(line)
    }))
}

/// In JSON a line break that is not escaped is white space.
fn one_line(text: Utf8Bytes) -> Utf8Bytes {
    if text.as_bytes().contains(&b'\n') { Utf8Bytes::from(text.as_str().replace('\n', " ")) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn messages_are_lines() {
        let (ours, theirs) = tokio::io::duplex(64);
        let (mut out, mut inc) = (outgoing(ours), incoming(theirs));
        let write = async {
            for text in ["{\"a\":\n1}", "", "{}"] {
                out.send(Sent::Text(text.into())).await.unwrap();
                out.send(Sent::Ping).await.unwrap();
            }
            drop(out);
        };
        let read = async {
            let mut seen = Vec::new();
            while let Some(Ok(Received::Text(text))) = inc.next().await {
                seen.push(text.to_string());
            }
            seen
        };
        let ((), seen) = tokio::join!(write, read);
        assert_eq!(seen, ["{\"a\": 1}", "{}"]);
    }
}
