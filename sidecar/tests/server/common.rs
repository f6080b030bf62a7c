//! A server with a workspace, and a client that speaks bare frames.

#[path = "../../../crates/sandbox/tests/common/processes.rs"]
mod processes;

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::BoxFuture;
use futures_util::{SinkExt, StreamExt};
use sandbox_sidecar::Server;
use sandbox_sidecar::config::Config;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};
use tokio_tungstenite::tungstenite::{Error, Message};

/// Far above what anything here takes: it ends a test that hangs, and decides nothing else.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server, its workspace, and a directory that no profile grants.
pub(crate) struct Fixture {
    pub(crate) server: Server,
    workspace: TempDir,
    outside: TempDir,
}

impl Fixture {
    pub(crate) async fn start() -> Fixture {
        Fixture::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut Config)) -> Fixture {
        let (workspace, outside) = (scratch(), scratch());
        let mut config = Config::embedded(workspace.path().to_owned()).expect("a valid config");
        change(&mut config);
        let server = Server::start(config).await.expect("the server starts");
        Fixture { server, workspace, outside }
    }

    /// The path of a name in the workspace.
    pub(crate) fn ws(&self, name: &str) -> PathBuf {
        self.workspace.path().join(name)
    }

    /// The path of a name outside of everything that is granted.
    pub(crate) fn outside(&self, name: &str) -> PathBuf {
        self.outside.path().join(name)
    }

    /// A client that has done the handshake.
    pub(crate) async fn client(&self) -> Client {
        let mut client = self.bare_client().await;
        client.open().await;
        client
    }

    /// A client that has said nothing yet.
    pub(crate) async fn bare_client(&self) -> Client {
        Client::over(self.server.connect_in_process()).await
    }

    /// Params of a `process/start` in the workspace.
    pub(crate) fn command(&self, id: &str, argv: &[&str]) -> Value {
        json!({
            "processId": id,
            "argv": argv,
            "cwd": self.workspace.path(),
            "env": { "PATH": std::env::var("PATH").unwrap_or_default(), "TERM": "dumb" },
        })
    }

    pub(crate) fn shell(&self, id: &str, script: &str) -> Value {
        self.command(id, &["/bin/sh", "-c", script])
    }
}

pub(crate) fn scratch() -> TempDir {
    tempfile::tempdir_in("/var/tmp").expect("a directory in /var/tmp")
}

pub(crate) fn with(mut params: Value, key: &str, value: Value) -> Value {
    params[key] = value;
    params
}

pub(crate) fn uri(path: &Path) -> String {
    format!("file://{}", path.display())
}

trait Io: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

/// How the client's messages travel.
pub(crate) trait Link: Send {
    fn send(&mut self, message: Message) -> BoxFuture<'_, ()>;
    /// `None` at the end.
    fn next(&mut self) -> BoxFuture<'_, Option<Result<Message, Error>>>;
}

impl Link for WebSocketStream<Box<dyn Io>> {
    fn send(&mut self, message: Message) -> BoxFuture<'_, ()> {
        Box::pin(async { SinkExt::send(self, message).await.expect("the frame is sent") })
    }

    fn next(&mut self) -> BoxFuture<'_, Option<Result<Message, Error>>> {
        Box::pin(StreamExt::next(self))
    }
}

/// A client that keeps what it is not asked for.
pub(crate) struct Client {
    link: Box<dyn Link>,
    next_id: i64,
    responses: HashMap<i64, Value>,
    notifications: VecDeque<Value>,
    closed: Option<Option<CloseFrame>>,
}

/// Everything that one process said, from its first event to `closed`.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) pty: Vec<u8>,
    pub(crate) exited: Value,
}

impl Transcript {
    pub(crate) fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    pub(crate) fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    pub(crate) fn code(&self) -> i64 {
        self.exited["exitCode"].as_i64().expect("an exit code")
    }
}

impl Client {
    pub(crate) async fn over(io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Client {
        let io: Box<dyn Io> = Box::new(io);
        let socket = WebSocketStream::from_raw_socket(io, Role::Client, None).await;
        Client::linked(socket)
    }

    /// Does the handshake.
    pub(crate) async fn open(&mut self) {
        self.call("initialize", json!({ "clientName": "test" })).await;
        self.notify("initialized", json!({})).await;
    }

    pub(crate) fn linked(link: impl Link + 'static) -> Client {
        Client {
            link: Box::new(link),
            next_id: 1,
            responses: HashMap::new(),
            notifications: VecDeque::new(),
            closed: None,
        }
    }

    pub(crate) async fn send_raw(&mut self, message: Message) {
        self.link.send(message).await;
    }

    pub(crate) async fn send_text(&mut self, text: &str) {
        self.send_raw(Message::text(text)).await;
    }

    pub(crate) async fn notify(&mut self, method: &str, params: Value) {
        self.send_text(&json!({ "method": method, "params": params }).to_string()).await;
    }

    /// Sends a request without waiting. The id is for [`Client::outcome`].
    pub(crate) async fn request(&mut self, method: &str, params: Value) -> i64 {
        let id = self.next_id;
        self.next_id += 1;
        self.send_text(&json!({ "id": id, "method": method, "params": params }).to_string()).await;
        id
    }

    /// The whole response to a request.
    pub(crate) async fn response(&mut self, id: i64) -> Value {
        loop {
            if let Some(response) = self.responses.remove(&id) {
                return response;
            }
            self.receive().await;
        }
    }

    /// The response to what had no id of its own.
    pub(crate) async fn response_to_nothing(&mut self) -> Value {
        self.response(-1).await
    }

    pub(crate) async fn outcome(&mut self, id: i64) -> Result<Value, Value> {
        let mut response = self.response(id).await;
        match response.get("error") {
            Some(error) => Err(error.clone()),
            None => Ok(response["result"].take()),
        }
    }

    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params).await;
        self.outcome(id).await.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// The error of a call that must fail.
    pub(crate) async fn refused(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params).await;
        match self.outcome(id).await {
            Err(error) => error,
            Ok(result) => panic!("{method} succeeded: {result}"),
        }
    }

    /// The next notification of any process.
    pub(crate) async fn notification(&mut self) -> Value {
        loop {
            if let Some(notification) = self.notifications.pop_front() {
                return notification;
            }
            self.receive().await;
        }
    }

    /// A notification that has come already.
    pub(crate) fn arrived(&mut self) -> Option<Value> {
        self.notifications.pop_front()
    }

    /// Whether a notification has come that nobody has asked for yet.
    pub(crate) fn has_notifications(&self) -> bool {
        !self.notifications.is_empty()
    }

    /// Starts a process and follows it to its end.
    pub(crate) async fn run(&mut self, params: Value) -> Transcript {
        let id = params["processId"].as_str().expect("an id").to_owned();
        self.call("process/start", params).await;
        self.follow(&id).await
    }

    /// Everything that a process says, to its end. Panics where a seq is missing, repeated or out of order.
    pub(crate) async fn follow(&mut self, id: &str) -> Transcript {
        let mut transcript = Transcript::default();
        let mut next = 1;
        let mut others = VecDeque::new();
        loop {
            let notification = self.notification().await;
            let params = &notification["params"];
            if params["processId"] != id {
                others.push_back(notification);
                continue;
            }
            assert_eq!(params["seq"], next, "{notification}");
            next += 1;
            match notification["method"].as_str().expect("a method") {
                "process/output" => {
                    let bytes = decode(&params["chunk"]);
                    assert!(!bytes.is_empty() && bytes.len() <= 65_536);
                    match params["stream"].as_str().expect("a stream") {
                        "stdout" => transcript.stdout.extend(bytes),
                        "stderr" => transcript.stderr.extend(bytes),
                        _ => transcript.pty.extend(bytes),
                    }
                }
                "process/exited" => {
                    assert_eq!(transcript.exited, Value::Null, "a second exit");
                    transcript.exited = params.clone();
                }
                _ => {
                    assert_ne!(transcript.exited, Value::Null, "closed before exited");
                    others.extend(std::mem::take(&mut self.notifications));
                    self.notifications = others;
                    return transcript;
                }
            }
        }
    }

    /// Waits for output of a process that holds `text`.
    pub(crate) async fn wait_for(&mut self, id: &str, text: &str) {
        let mut seen = String::new();
        let mut after = 0;
        while !seen.contains(text) {
            let read = self
                .call(
                    "process/read",
                    json!({ "processId": id, "afterSeq": after, "waitMs": 20_000, "maxBytes": 1 << 20 }),
                )
                .await;
            after = read["nextSeq"].as_u64().expect("a seq") - 1;
            for chunk in read["chunks"].as_array().expect("chunks") {
                seen.push_str(&String::from_utf8_lossy(&decode(&chunk["chunk"])));
            }
            assert!(read["closed"] != true || seen.contains(text), "it ended without {text:?}: {seen:?}");
        }
    }

    /// The close frame that ends the connection; responses and notifications before it are kept.
    pub(crate) async fn closed(&mut self) -> Option<CloseFrame> {
        while self.closed.is_none() {
            self.receive_any().await;
        }
        self.closed.clone().flatten()
    }

    async fn receive(&mut self) {
        assert!(self.closed.is_none(), "the server closed the connection: {:?}", self.closed);
        self.receive_any().await;
    }

    async fn receive_any(&mut self) {
        match tokio::time::timeout(PATIENCE, self.next_frame()).await.expect("the server says something") {
            Some(Ok(Message::Text(text))) => {
                let message: Value = serde_json::from_str(&text).expect("JSON");
                match message.get("id").and_then(Value::as_i64) {
                    Some(id) => drop(self.responses.insert(id, message)),
                    None => self.notifications.push_back(message),
                }
            }
            Some(Ok(Message::Close(frame))) => self.closed = Some(frame),
            Some(Ok(other)) => panic!("an unexpected frame: {other:?}"),
            Some(Err(_)) | None => drop(self.closed.get_or_insert(None)),
        }
    }

    /// Pings go by: they say nothing about progress.
    async fn next_frame(&mut self) -> Option<Result<Message, Error>> {
        loop {
            match self.link.next().await {
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                frame => return frame,
            }
        }
    }
}

pub(crate) fn decode(value: &Value) -> Vec<u8> {
    STANDARD.decode(value.as_str().expect("a string")).expect("base64")
}

pub(crate) fn encode(bytes: impl AsRef<[u8]>) -> String {
    STANDARD.encode(bytes)
}

/// How many processes have the marker in their command line.
pub(crate) fn alive(marker: &str) -> usize {
    processes::alive(marker).len()
}
