//! Metrics for a scrape: HTTP on a port of its own, without a token, since it tells nothing of commands, paths or ids.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::Metrics;
use crate::error::Error;

/// Connections at the same time; the next one waits.
const CONNECTIONS: usize = 4;

/// How long a scraper may take to send the head of a request, and how long a connection may stay idle.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// The head of a scrape is small; hyper takes no less.
const HEADER_BYTES: usize = 8 << 10;

/// Before the next accept where the process is out of descriptors.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

const TEXT: &str = "text/plain; charset=utf-8";

/// A port that serves metrics; closed on drop.
#[derive(Debug)]
pub struct Endpoint {
    addr: SocketAddr,
    _tasks: JoinSet<()>,
}

impl Endpoint {
    /// Listens there, and serves `GET /metrics`. Port 0 picks one.
    ///
    /// # Errors
    /// [`Error::MetricsListen`] names the address.
    pub async fn listen(addr: SocketAddr, metrics: Metrics) -> Result<Self, Error> {
        let failed = |cause| Error::MetricsListen { addr, cause };
        let listener = TcpListener::bind(addr).await.map_err(failed)?;
        let addr = listener.local_addr().map_err(failed)?;
        tracing::info!(%addr, "metrics are served here");
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, metrics));
        Ok(Self { addr, _tasks: tasks })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }
}

async fn accept(listener: TcpListener, metrics: Metrics) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    // Dropped with this task, which ends their tasks.
    let mut connections = JoinSet::new();
    while let Ok(slot) = slots.clone().acquire_owned().await {
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, peer)) => {
                let metrics = metrics.clone();
                connections.spawn(async move {
                    serve(stream, peer, &metrics).await;
                    drop(slot);
                });
            }
            Err(e) => {
                // Most likely out of descriptors: the connection stays queued, and accept would fail again at once.
                tracing::warn!(error = %e, "cannot accept a connection on the metrics port");
                tokio::time::sleep(ACCEPT_BACKOFF).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, peer: SocketAddr, metrics: &Metrics) {
    let service = service_fn(|request| {
        let response = answer(&request, metrics);
        async { Ok::<_, Infallible>(response) }
    });
    let ended = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(HEADER_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(e) = ended {
        tracing::debug!(%peer, error = %e, "metrics connection");
    }
}

fn answer<B>(request: &Request<B>, metrics: &Metrics) -> Response<Full<Bytes>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "GET or HEAD\n", TEXT);
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    if request.uri().path() != "/metrics" {
        return text(StatusCode::NOT_FOUND, "/metrics\n", TEXT);
    }
    match metrics.render() {
        Ok(body) => text(StatusCode::OK, body, prometheus::TEXT_FORMAT),
        Err(e) => {
            tracing::error!(error = %e, "the metrics cannot be rendered");
            text(StatusCode::INTERNAL_SERVER_ERROR, "internal\n", TEXT)
        }
    }
}

fn text(status: StatusCode, body: impl Into<Bytes>, content_type: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
