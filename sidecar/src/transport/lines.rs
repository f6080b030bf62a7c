//! One JSON message per line, over any pair of byte streams. A reason to close is told as an error response to nothing:
//! a line has no close frame. Nor is there a ping: a blank line takes its place, and the answer to it is another one.

use std::sync::Arc;

use sidecar_protocol::{RequestId, RpcError, envelope};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader, BufWriter,
};

use super::drive::{self, Received};
use super::progress::Progress;
use crate::caller::Caller;
use crate::connection::outbox::{self, Close, Item, Outgoing, Text};
use crate::server::Shared;

/// Bytes read at once.
const READ_BUFFER: usize = 16 << 10;

/// Bytes collected before they are written; a message that is larger goes out by itself.
const WRITE_BUFFER: usize = 16 << 10;

/// Serves a connection. `lingers`: the peer hangs up after the last line, as one of a socket does.
pub(crate) async fn serve<R, W>(shared: Arc<Shared>, input: R, output: W, lingers: bool, caller: Caller)
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let max = shared.config.limits.message_bytes;
    let input = BufReader::with_capacity(READ_BUFFER, input);
    let reader = Reader { input, line: Vec::new(), max, lingers, output: std::marker::PhantomData };
    let (outbox, outgoing) = outbox::new(shared.config.limits.response_bytes);
    let output = Progress::new(output, outbox.heard().clone());
    let writer = Writer { output: BufWriter::with_capacity(WRITE_BUFFER, output), shared: shared.clone() };
    drive::serve(shared, (reader, writer), (outbox, outgoing), caller).await;
}

/// Tells a peer why it is not served, and hangs up.
pub(crate) async fn refuse(mut output: impl AsyncWrite + Unpin, error: &RpcError) {
    let line = envelope::error_response(&RequestId::NONE, error) + "\n";
    // Whoever has hung up already needs no reason.
    let _ = output.write_all(line.as_bytes()).await;
    let _ = output.shutdown().await;
}

struct Reader<R, W> {
    input: BufReader<R>,
    /// What has come of the next line.
    line: Vec<u8>,
    max: usize,
    lingers: bool,
    output: std::marker::PhantomData<fn() -> W>,
}

impl<R, W> Reader<R, W>
where
    R: AsyncRead + Unpin + Send + 'static,
{
    /// The next line, without its end; `None` at the end of input.
    async fn line(&mut self) -> Result<Option<Vec<u8>>, Close> {
        loop {
            let Ok(bytes) = self.input.fill_buf().await else { return Ok(None) };
            let ended = bytes.is_empty();
            let newline = bytes.iter().position(|byte| *byte == b'\n');
            let part = newline.unwrap_or(bytes.len());
            if self.line.len() + part > self.max {
                return Err(drive::too_large(self.max));
            }
            self.line.extend_from_slice(&bytes[..part]);
            self.input.consume(newline.map_or(part, |at| at + 1));
            if !ended && newline.is_none() {
                continue;
            }
            let line = std::mem::take(&mut self.line);
            return Ok((!ended || !line.is_empty()).then_some(line));
        }
    }
}

impl<R, W> drive::Reader for Reader<R, W>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    type Text = String;
    type Writer = Writer<W>;

    async fn next(&mut self) -> Received<String> {
        match self.line().await {
            Ok(Some(line)) if line.trim_ascii().is_empty() => Received::Alive,
            Ok(Some(line)) => match String::from_utf8(line) {
                Ok(text) => Received::Message(text),
                Err(e) => Received::Invalid(format!("not a valid message: {e}")),
            },
            Ok(None) => Received::End(None),
            Err(close) => Received::End(Some(close)),
        }
    }

    async fn farewell(mut self, writer: Writer<W>) {
        drop(writer);
        let mut rest = [0; 4096];
        while self.lingers && matches!(self.input.read(&mut rest).await, Ok(n) if n > 0) {}
    }
}

struct Writer<W> {
    output: BufWriter<Progress<W>>,
    shared: Arc<Shared>,
}

impl<W: AsyncWrite + Unpin> Writer<W> {
    async fn send(&mut self, text: impl AsRef<[u8]>) -> std::io::Result<()> {
        self.output.write_all(text.as_ref()).await?;
        self.output.write_all(b"\n").await
    }
}

impl<W: AsyncWrite + Unpin + Send + 'static> drive::Writer for Writer<W> {
    async fn run(mut self, mut outgoing: Outgoing) -> Option<Self> {
        loop {
            let item = match outgoing.try_next() {
                Some(item) => item,
                None => {
                    self.output.flush().await.ok()?;
                    outgoing.next().await
                }
            };
            match item {
                Item::Message(Text::Whole(text), permit) => {
                    self.send(&text).await.ok()?;
                    drop(permit);
                    self.shared.spare.put(text);
                }
                Item::Message(Text::File(response), permit) => {
                    for part in response {
                        self.output.write_all(&part).await.ok()?;
                    }
                    self.send("").await.ok()?;
                    drop(permit);
                }
                Item::Probe => self.send("").await.ok()?,
                Item::Close(close) => {
                    if !close.reason.is_empty() {
                        let error = RpcError::invalid_request(close.reason);
                        self.send(envelope::error_response(&RequestId::NONE, &error)).await.ok()?;
                    }
                    self.output.shutdown().await.ok()?;
                    return Some(self);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(input: &'static [u8], max: usize) -> Reader<&'static [u8], tokio::io::Sink> {
        let input = BufReader::with_capacity(3, input);
        Reader { input, line: Vec::new(), max, lingers: false, output: std::marker::PhantomData }
    }

    #[tokio::test]
    async fn lines_are_cut_at_newlines_alone() {
        let mut reader = reader(b"one\n\n  \r\ntwo\\nthree\n\xff\nunfinished", 100);
        let mut lines = Vec::new();
        while let Ok(Some(line)) = reader.line().await {
            lines.push(line);
        }
        assert_eq!(lines, [&b"one"[..], b"", b"  \r", b"two\\nthree", b"\xff", b"unfinished"]);
    }

    #[tokio::test]
    async fn a_line_has_a_limit() {
        let mut exact = reader(b"12345\n12345", 5);
        for _ in 0..2 {
            assert_eq!(exact.line().await, Ok(Some(b"12345".to_vec())));
        }
        assert_eq!(exact.line().await, Ok(None));
        let close = reader(b"123456\n", 5).line().await.expect_err("too long");
        assert!(close.reason.contains("limits.messageBytes"), "{close:?}");
    }
}
