//! A client that is not the limit: blocking, one buffer, no JSON where a search will do.

use std::io::{BufReader, Read as _, Write as _};
use std::net::TcpStream;

use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::engine::Simd;
use base64::engine::general_purpose::PAD;
use memchr::memmem;
use serde_json::{Value, json};
use socket2::SockRef;
use tokio_tungstenite::tungstenite;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

/// Bytes read along with a frame's header; the rest of a large frame goes straight to where it is wanted.
const READ_BUFFER: usize = 4 << 10;

/// A message that is sent apart from its head, bytes.
const LARGE: usize = 64 << 10;

/// The longest part of a notification before its payload.
const HEAD: usize = 512;

/// The longest part of it behind its payload. Of a longer one the payload would not decode.
const BEHIND: usize = 64;

const TEXT: u8 = 0x81;
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const PONG: u8 = 0x8a;

/// How the client's kernel acknowledges what the server sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Acks {
    /// As it does by itself: up to 40 ms late.
    Ordinary,
    /// At once (`TCP_QUICKACK`), which hides a server that leaves Nagle's algorithm on.
    Quick,
}

/// A connection after its handshake.
#[derive(Debug)]
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
    acks: Acks,
    /// The last message.
    message: Vec<u8>,
    next_id: u64,
}

impl Client {
    /// Connects and shakes hands.
    pub(crate) fn open(url: &str, token: Option<&str>, acks: Acks) -> anyhow::Result<Self> {
        let mut request = url.into_client_request()?;
        if let Some(token) = token {
            request.headers_mut().insert("authorization", format!("Bearer {token}").parse()?);
        }
        let address = url.strip_prefix("ws://").context("a ws:// URL")?;
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let (socket, _) = tungstenite::client(request, stream)?;
        let stream = BufReader::with_capacity(READ_BUFFER, socket.into_inner());
        let mut client = Self { stream, acks, message: Vec::new(), next_id: 1 };
        client.call("initialize", &json!({"clientName": "bench"}))?;
        client.send(r#"{"method":"initialized","params":{}}"#)?;
        Ok(client)
    }

    /// Sends one message.
    pub(crate) fn send(&mut self, text: &str) -> anyhow::Result<()> {
        self.frame(TEXT, text.as_bytes())
    }

    /// The mask is 0, so that masking costs nothing.
    fn frame(&mut self, opcode: u8, payload: &[u8]) -> anyhow::Result<()> {
        let mut frame = Vec::with_capacity(payload.len().min(LARGE) + 14);
        frame.push(opcode);
        match payload.len() {
            len @ 0..126 => frame.push(0x80 | len as u8),
            len @ 126..0x1_0000 => {
                frame.push(0x80 | 126);
                frame.extend((len as u16).to_be_bytes());
            }
            len => {
                frame.push(0x80 | 127);
                frame.extend((len as u64).to_be_bytes());
            }
        }
        frame.extend([0; 4]);
        // What is large need not be copied to go out together with its head.
        let (with_head, rest) = payload.split_at(if payload.len() < LARGE { payload.len() } else { 0 });
        frame.extend(with_head);
        self.stream.get_mut().write_all(&frame)?;
        Ok(self.stream.get_mut().write_all(rest)?)
    }

    /// The next message.
    pub(crate) fn receive(&mut self) -> anyhow::Result<&[u8]> {
        let mut begin = 0;
        loop {
            let (fin, opcode, len) = self.header()?;
            // What is there of the last message is overwritten: to clear it first would be one more pass over each.
            self.message.resize(begin + len, 0);
            self.stream.read_exact(&mut self.message[begin..])?;
            if self.acks == Acks::Quick {
                // The kernel forgets it after a while.
                SockRef::from(self.stream.get_ref()).set_tcp_quickack(true)?;
            }
            match opcode {
                PING => {
                    let payload = self.message.split_off(begin);
                    self.frame(PONG, &payload)?;
                }
                CLOSE => bail!("closed: {}", String::from_utf8_lossy(&self.message[begin..])),
                _ if fin => return Ok(&self.message),
                _ => begin = self.message.len(),
            }
        }
    }

    fn header(&mut self) -> anyhow::Result<(bool, u8, usize)> {
        let [first, second] = self.exactly()?;
        let len = match second {
            126 => u16::from_be_bytes(self.exactly()?).into(),
            127 => u64::from_be_bytes(self.exactly()?),
            short => short.into(),
        };
        Ok((first & 0x80 != 0, first & 0xf, usize::try_from(len)?))
    }

    fn exactly<const N: usize>(&mut self) -> anyhow::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Sends a request and gives the whole response to it, undecoded.
    pub(crate) fn exchange(&mut self, method: &str, params: &Value) -> anyhow::Result<&[u8]> {
        let id = self.request(method, params)?;
        self.response(id)
    }

    /// Sends a request and gives its id.
    pub(crate) fn request(&mut self, method: &str, params: &Value) -> anyhow::Result<u64> {
        let id = self.next_id;
        self.next_id += 1;
        self.send(&format!(r#"{{"id":{id},"method":"{method}","params":{params}}}"#))?;
        Ok(id)
    }

    /// Skips what comes before the response to a request. Any error is one: each client waits for one request at a time.
    pub(crate) fn response(&mut self, id: u64) -> anyhow::Result<&[u8]> {
        let result = format!(r#"{{"id":{id},"result""#);
        let ours = format!(r#"{{"id":{id},"error""#);
        while !self.receive()?.starts_with(result.as_bytes()) {
            // The stock server tells the error first.
            if self.message.starts_with(ours.as_bytes()) || self.message.starts_with(br#"{"error""#) {
                bail!("{}", String::from_utf8_lossy(&self.message));
            }
        }
        Ok(&self.message)
    }

    /// Sends a request and gives its result.
    pub(crate) fn call(&mut self, method: &str, params: &Value) -> anyhow::Result<Value> {
        let mut response: Value = serde_json::from_slice(self.exchange(method, params)?)?;
        Ok(response["result"].take())
    }

    /// Skips what comes before a notification of this method about this process.
    pub(crate) fn await_notification(&mut self, method: &str, process: &str) -> anyhow::Result<()> {
        let process = format!(r#""processId":"{process}""#);
        loop {
            let message = self.receive()?;
            let head = &message[..message.len().min(HEAD)];
            if head.starts_with(br#"{"error""#) {
                bail!("{}", String::from_utf8_lossy(message));
            }
            if memmem::find(head, method.as_bytes()).is_some()
                && memmem::find(head, process.as_bytes()).is_some()
            {
                return Ok(());
            }
        }
    }

    /// Decodes all output until a process is closed; gives the number of bytes.
    pub(crate) fn decode_output(&mut self) -> anyhow::Result<usize> {
        let engine = Simd::standard(PAD);
        let mut payload = Vec::new();
        let mut bytes = 0;
        loop {
            let message = self.receive()?;
            if let Some(chunk) = chunk(message) {
                payload.resize(chunk.len().div_ceil(4) * 3, 0);
                bytes += engine.decode_slice(chunk, &mut payload)?;
            } else if memmem::find(message, b"process/closed").is_some() {
                return Ok(bytes);
            } else if memmem::find(message, br#""error":"#).is_some() {
                bail!("{}", String::from_utf8_lossy(message));
            }
        }
    }

    /// A second handle on the connection, for whoever is to end it.
    pub(crate) fn handle(&self) -> std::io::Result<TcpStream> {
        self.stream.get_ref().try_clone()
    }
}

/// The payload of an output notification, or of a block that was read.
pub(crate) fn chunk(message: &[u8]) -> Option<&[u8]> {
    const KEY: &[u8] = br#""chunk":""#;
    let begin = memmem::find(&message[..message.len().min(HEAD)], KEY)? + KEY.len();
    // Little comes behind it: to look for its end from its begin would be one more pass over each.
    let from = begin.max(message.len().saturating_sub(BEHIND));
    let end = from + memchr::memchr(b'"', &message[from..])?;
    Some(&message[begin..end])
}
