//! A mock sidecar that plays a script: for faults that a real one does not commit on demand.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "a mock fails by panicking")]

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agent_client::Error;
use agent_client::client::{Client, Options};
use agent_client::protocol::process::{StartParams, Stream};
use agent_client::protocol::{Incoming, RequestId, RpcError, envelope, frame};
use agent_client::transport::{self, Connect, Connection, SidecarUrl};
use futures_util::future::BoxFuture;
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

/// The sidecar's end of one connection.
pub(crate) struct Peer<S> {
    pub(crate) socket: WebSocketStream<S>,
}

/// A request as it came.
pub(crate) struct Request {
    pub(crate) id: RequestId,
    pub(crate) method: String,
    pub(crate) params: Value,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Peer<S> {
    /// Serves the handshake with this environment info.
    pub(crate) async fn handshake(&mut self, environment_info: Option<Value>) {
        let request = self.request("initialize").await;
        let mut result = json!({ "protocolVersion": "exec-server.v0", "sessionId": "s1" });
        if let Some(info) = environment_info {
            result["environmentInfo"] = info;
        }
        self.answer(&request, result).await;
        let Some(Ok(Message::Text(text))) = self.socket.next().await else { panic!("no initialized") };
        let Ok(Incoming::Notification { method, .. }) = envelope::decode(&text) else { panic!("{text}") };
        assert_eq!(method, "initialized");
    }

    /// The next message, which must be a request of that method.
    pub(crate) async fn request(&mut self, expected: &str) -> Request {
        let text = loop {
            match self.socket.next().await {
                Some(Ok(Message::Text(text))) => break text,
                Some(Ok(Message::Pong(_))) => {}
                other => panic!("expected {expected}, got {other:?}"),
            }
        };
        let Ok(Incoming::Request { id, method, params }) = envelope::decode(&text) else { panic!("{text}") };
        assert_eq!(method, expected);
        let params = serde_json::from_str(params.map_or("{}", |p| p.get())).unwrap();
        Request { id, method: method.into_owned(), params }
    }

    /// The handshake of a connection that takes a session over; the id that it asks for. Meanwhile the client says what
    /// it has.
    pub(crate) async fn handshake_again(&mut self, mut received: Vec<(&str, u64)>) -> Value {
        let request = self.request("initialize").await;
        let asked = request.params["resumeSessionId"].clone();
        self.answer(&request, json!({ "sessionId": asked, "environmentInfo": resumable(60, 1 << 20) })).await;
        while !received.is_empty() {
            let ack = self.notification("process/ack").await;
            let ack = (ack["processId"].as_str().unwrap(), ack["seq"].as_u64().unwrap());
            let at = received.iter().position(|due| *due == ack).unwrap_or_else(|| panic!("{ack:?}"));
            received.remove(at);
        }
        assert_eq!(self.notification("initialized").await, json!({}));
        asked
    }

    /// The next message, which must be a notification of that method.
    pub(crate) async fn notification(&mut self, expected: &str) -> Value {
        let Some(Ok(Message::Text(text))) = self.socket.next().await else { panic!("no {expected}") };
        let Ok(Incoming::Notification { method, params }) = envelope::decode(&text) else { panic!("{text}") };
        assert_eq!(method, expected);
        serde_json::from_str(params.map_or("{}", |p| p.get())).unwrap()
    }

    /// Serves one `process/start` of a client that acknowledges.
    pub(crate) async fn start_acknowledged(&mut self) -> Request {
        let request = self.request("process/start").await;
        let id = request.params["processId"].clone();
        assert_eq!(self.notification("process/ack").await, json!({ "processId": id, "seq": 0 }));
        self.answer(&request, json!({ "processId": id })).await;
        request
    }

    /// Serves one `process/start`.
    pub(crate) async fn start(&mut self) -> Request {
        let request = self.request("process/start").await;
        let result = json!({ "processId": request.params["processId"] });
        self.answer(&request, result).await;
        request
    }

    pub(crate) async fn answer(&mut self, request: &Request, result: Value) {
        self.send(envelope::response(&request.id, &result)).await;
    }

    pub(crate) async fn error(&mut self, request: &Request, error: RpcError) {
        self.send(envelope::error_response(&request.id, &error)).await;
    }

    pub(crate) async fn output(&mut self, process: &str, seq: u64, bytes: &[u8]) {
        let text = frame::output(process, seq, Stream::Stdout, bytes);
        self.send(String::from_utf8(text).unwrap()).await;
    }

    pub(crate) async fn exited(&mut self, process: &str, seq: u64, exit_code: i32) {
        self.notify("process/exited", json!({ "processId": process, "seq": seq, "exitCode": exit_code }))
            .await;
    }

    pub(crate) async fn closed(&mut self, process: &str, seq: u64) {
        self.notify("process/closed", json!({ "processId": process, "seq": seq })).await;
    }

    pub(crate) async fn notify(&mut self, method: &str, params: Value) {
        self.send(envelope::notification(method, &params)).await;
    }

    pub(crate) async fn send(&mut self, text: String) {
        self.socket.send(Message::text(text)).await.unwrap();
    }

    /// Serves nothing more; returns when the client has closed the connection.
    pub(crate) async fn until_closed(mut self) {
        while let Some(Ok(_)) = self.socket.next().await {}
    }
}

/// The environment info of a server that keeps a session for that long, and that much of each process.
pub(crate) fn resumable(ttl_seconds: u64, retained_bytes: u64) -> Value {
    json!({
        "shell": { "name": "sh", "path": "/bin/sh" }, "cwd": "file:///ws", "tempDir": "file:///tmp",
        "platformOs": "linux", "executorVersion": "1", "capabilities": {},
        "sidecar": {
            "version": "1", "workspaceRoot": "file:///ws", "landlockAbi": 7, "profiles": [], "defaultProfile": "x",
            "limits": { "messageBytes": 1, "retainedBytes": retained_bytes, "retainedChunks": 1000, "processes": 1,
                "detachedTtlSeconds": ttl_seconds },
        },
    })
}

/// Makes connections to mocks, one after the other, each over an in-memory stream.
#[derive(Debug)]
pub(crate) struct Mocks {
    peers: mpsc::UnboundedSender<DuplexStream>,
    /// Nobody listens any more.
    pub(crate) gone: AtomicBool,
}

impl Mocks {
    pub(crate) fn new() -> (Arc<Self>, Accepted) {
        let (peers, accepted) = mpsc::unbounded_channel();
        (Arc::new(Self { peers, gone: AtomicBool::new(false) }), Accepted(accepted))
    }
}

impl Connect for Mocks {
    fn connect(&self) -> BoxFuture<'_, Result<Connection, Error>> {
        Box::pin(async {
            if self.gone.load(Ordering::SeqCst) {
                let cause = std::io::ErrorKind::ConnectionRefused.into();
                return Err(Error::Unreachable { url: "mock".to_owned(), cause });
            }
            let (ours, theirs) = tokio::io::duplex(1 << 10);
            self.peers.send(theirs).unwrap();
            Ok(transport::in_process(ours).await)
        })
    }
}

/// The other ends of what [`Mocks`] makes.
pub(crate) struct Accepted(mpsc::UnboundedReceiver<DuplexStream>);

impl Accepted {
    pub(crate) async fn next(&mut self) -> Peer<DuplexStream> {
        let stream = self.0.recv().await.unwrap();
        Peer { socket: WebSocketStream::from_raw_socket(stream, Role::Server, None).await }
    }
}

/// A mock over an in-memory stream of 1 KiB, so that nothing is buffered on the way, and a client of it.
pub(crate) async fn in_memory<F>(
    options: Options,
    script: impl FnOnce(Peer<DuplexStream>) -> F,
) -> (Client, JoinHandle<()>)
where
    F: Future<Output = ()> + Send + 'static,
{
    let (ours, theirs) = tokio::io::duplex(1 << 10);
    let socket = WebSocketStream::from_raw_socket(theirs, Role::Server, None).await;
    let server = tokio::spawn(script(Peer { socket }));
    let client = Client::handshake(transport::in_process(ours).await, &options).await.unwrap();
    (client, server)
}

/// A mock on a TCP port that serves one connection.
pub(crate) async fn on_tcp<F>(
    script: impl FnOnce(Peer<TcpStream>) -> F + Send + 'static,
) -> (SidecarUrl, JoinHandle<()>)
where
    F: Future<Output = ()> + Send + 'static,
{
    let (url, listener) = listen().await;
    let server = tokio::spawn(async move {
        let (tcp, _) = listener.accept().await.unwrap();
        let socket = tokio_tungstenite::accept_async(tcp).await.unwrap();
        script(Peer { socket }).await;
    });
    (url, server)
}

/// A free port that listens.
pub(crate) async fn listen() -> (SidecarUrl, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = SidecarUrl::parse(&format!("ws://{}", listener.local_addr().unwrap())).unwrap();
    (url, listener)
}

/// A start request of the least that it needs.
pub(crate) fn start_params(process_id: &str) -> StartParams {
    serde_json::from_value(json!({ "processId": process_id, "argv": ["x"], "cwd": "/" })).unwrap()
}
