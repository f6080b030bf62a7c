//! A mock sidecar that plays a script: for faults that a real one does not commit on demand.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "a mock fails by panicking")]

use std::future::Future;

use agent_client::client::{Client, Options};
use agent_client::protocol::process::{StartParams, Stream};
use agent_client::protocol::{Incoming, RequestId, RpcError, envelope, frame};
use agent_client::transport::{self, SidecarUrl};
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::{TcpListener, TcpStream};
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
        self.send(frame::output(process, seq, Stream::Stdout, bytes)).await;
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
