//! A JSON-RPC client that hides nothing: frames go out as the test wrote them and come in as the server sent them.

use std::collections::VecDeque;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::{GIVE_UP, Server};

/// A connection.
#[derive(Debug)]
pub struct Client {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    /// Frames that came while another one was waited for.
    waiting: VecDeque<Value>,
    next_id: u64,
}

/// A process that has run to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// stdout, or the terminal.
    pub stdout: String,
    /// stderr.
    pub stderr: String,
    /// The params of `process/exited`.
    pub exited: Value,
}

impl Finished {
    /// The exit code.
    pub fn code(&self) -> i64 {
        self.exited["exitCode"].as_i64().unwrap()
    }
}

/// Opens a websocket with a bearer token and more headers.
///
/// # Errors
/// What the server or the network said.
pub async fn dial(
    url: &str,
    token: Option<&str>,
    headers: &[(&'static str, &str)],
) -> Result<WebSocketStream<MaybeTlsStream<TcpStream>>, Error> {
    let mut request = url.into_client_request()?;
    if let Some(token) = token {
        let value = HeaderValue::from_str(&format!("Bearer {token}")).unwrap();
        request.headers_mut().insert("authorization", value);
    }
    for &(name, value) in headers {
        request.headers_mut().insert(name, HeaderValue::from_str(value).unwrap());
    }
    timeout(GIVE_UP, connect_async(request))
        .await
        .expect("an answer to the upgrade")
        .map(|(socket, _)| socket)
}

impl Client {
    /// Connected, before any handshake.
    pub async fn connect(server: &Server) -> Self {
        let socket = dial(server.url(), server.token(), &[]).await.unwrap();
        Self { socket, waiting: VecDeque::new(), next_id: 1 }
    }

    /// Connected to something else that speaks the protocol, with its token.
    pub async fn connect_to(url: &str, token: &str) -> Self {
        let socket = dial(url, Some(token), &[]).await.unwrap();
        Self { socket, waiting: VecDeque::new(), next_id: 1 }
    }

    /// Connected and shaken hands.
    pub async fn open(server: &Server) -> Self {
        let mut client = Self::connect(server).await;
        client.initialize().await;
        client.notify("initialized", json!({})).await;
        client
    }

    /// The first half of the handshake.
    pub async fn initialize(&mut self) -> Value {
        self.call("initialize", json!({"clientName": "e2e"})).await.unwrap()
    }

    /// Sends one frame.
    pub async fn send(&mut self, frame: &Value) {
        self.send_text(&frame.to_string()).await;
    }

    /// Sends one text frame, whatever it holds.
    pub async fn send_text(&mut self, text: &str) {
        self.send_message(Message::text(text)).await;
    }

    /// Sends one websocket message.
    pub async fn send_message(&mut self, message: Message) {
        self.socket.send(message).await.unwrap();
    }

    /// Sends a notification.
    pub async fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({"method": method, "params": params})).await;
    }

    /// Sends a request and gives its id.
    pub async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = Value::from(self.next_id);
        self.next_id += 1;
        self.send(&json!({"id": id, "method": method, "params": params})).await;
        id
    }

    /// Sends a request and waits for its answer: the result, or the error.
    ///
    /// # Errors
    /// The `error` member.
    pub async fn call(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.request(method, params).await;
        outcome(self.response(&id).await)
    }

    /// Waits for the response with this id.
    pub async fn response(&mut self, id: &Value) -> Value {
        self.find(|frame| frame.get("method").is_none() && &frame["id"] == id).await
    }

    /// Waits for the next notification of one process; `name` without its `process/`.
    pub async fn of_process(&mut self, process: &str, name: &str) -> Value {
        let method = format!("process/{name}");
        let mut frame = self
            .find(|frame| frame["method"] == method.as_str() && frame["params"]["processId"] == process)
            .await;
        frame["params"].take()
    }

    /// Waits for the first frame that matches; keeps the others for later.
    pub async fn find(&mut self, matches: impl Fn(&Value) -> bool) -> Value {
        if let Some(found) = self.waiting.iter().position(&matches) {
            return self.waiting.remove(found).unwrap();
        }
        loop {
            let frame = self.receive().await.expect("the connection ended while a frame was waited for");
            if matches(&frame) {
                return frame;
            }
            self.waiting.push_back(frame);
        }
    }

    /// The next frame, in the order in which they came; `None` at the end of the connection.
    pub async fn next(&mut self) -> Option<Value> {
        match self.waiting.pop_front() {
            Some(frame) => Some(frame),
            None => self.receive().await,
        }
    }

    async fn receive(&mut self) -> Option<Value> {
        loop {
            match timeout(GIVE_UP, self.socket.next()).await.expect("a frame from the server") {
                Some(Ok(Message::Text(text))) => return Some(serde_json::from_str(&text).unwrap()),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
                Some(Ok(other)) => panic!("the server sent {other:?}"),
            }
        }
    }

    /// Waits for the end of the connection and gives the close code and reason.
    pub async fn closed(&mut self) -> Option<(u16, String)> {
        loop {
            match timeout(GIVE_UP, self.socket.next()).await.expect("the end of the connection") {
                Some(Ok(Message::Close(frame))) => {
                    return frame.map(|f| (f.code.into(), f.reason.to_string()));
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return None,
            }
        }
    }

    /// Starts a process and follows it to its end. Its notifications must be numbered from 1 without a gap.
    pub async fn run(&mut self, params: Value) -> Finished {
        let process = params["processId"].as_str().unwrap().to_owned();
        self.call("process/start", params).await.unwrap_or_else(|error| panic!("not started: {error}"));
        self.finish(&process).await
    }

    /// Follows a started process to its end.
    pub async fn finish(&mut self, process: &str) -> Finished {
        let (mut stdout, mut stderr, mut exited) = (Vec::new(), Vec::new(), Value::Null);
        for seq in 1_u64.. {
            let mut frame =
                self.find(|frame| frame.get("id").is_none() && frame["params"]["processId"] == process).await;
            let params = frame["params"].take();
            assert_eq!(params["seq"], seq, "{process}: {params}");
            match frame["method"].as_str().unwrap() {
                "process/output" => match params["stream"].as_str().unwrap() {
                    "stderr" => stderr.extend(decode(&params["chunk"])),
                    _ => stdout.extend(decode(&params["chunk"])),
                },
                "process/exited" => exited = params,
                "process/closed" => break,
                other => panic!("unexpected {other}"),
            }
        }
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Finished { stdout: text(stdout), stderr: text(stderr), exited }
    }
}

/// The result of a response, or its error.
///
/// # Errors
/// The `error` member.
pub fn outcome(mut response: Value) -> Result<Value, Value> {
    match response.get_mut("error") {
        Some(error) => Err(error.take()),
        None => Ok(response["result"].take()),
    }
}

/// Decodes base64.
pub fn decode(chunk: &Value) -> Vec<u8> {
    STANDARD.decode(chunk.as_str().unwrap()).unwrap()
}

/// Encodes base64.
pub fn encode(bytes: impl AsRef<[u8]>) -> String {
    STANDARD.encode(bytes)
}
