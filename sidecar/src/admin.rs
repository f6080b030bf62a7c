//! The admin port: metrics and health, without a token, so that the kubelet and Prometheus reach them while the API
//! stays on loopback. It serves nothing that a launch may not know.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use sidecar_intake::{Intake, Place};
use tokio::net::{TcpListener, TcpStream};

use crate::health;
use crate::server::{ACCEPT_BACKOFF, Shared, StartError};

/// Connections at the same time; the next one takes the place of the oldest.
const CONNECTIONS: usize = 64;

/// How long a client may take to send the head of a request, and how long a connection may stay idle.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// The head of a scrape is small.
const HEADER_BYTES: usize = 8 << 10;

const TEXT: &str = "text/plain; charset=utf-8";

/// Listens where there is to be an admin port.
pub(crate) fn bind(addr: Option<SocketAddr>) -> Result<Option<TcpListener>, StartError> {
    let Some(addr) = addr else { return Ok(None) };
    let listener = sidecar_intake::listen(addr).map_err(|source| StartError::Admin { addr, source })?;
    if let Ok(addr) = listener.local_addr() {
        tracing::info!(%addr, "metrics and health are served here");
    }
    Ok(Some(listener))
}

/// Accepts until the server stops.
pub(crate) async fn accept(shared: Arc<Shared>, listener: TcpListener) {
    let intake = Intake::new(CONNECTIONS);
    loop {
        let accepted = tokio::select! {
            () = shared.stop.cancelled() => return,
            accepted = shared.accept(&intake, listener.accept()) => accepted,
        };
        match accepted {
            Ok(((stream, peer), place)) => {
                drop(shared.tasks.spawn(serve(shared.clone(), stream, peer, place)));
            }
            Err(e) => {
                // Most likely out of descriptors: the connection stays queued, and accept would fail again at once.
                tracing::warn!(error = %e, "cannot accept a connection on the admin port");
                tokio::time::sleep(ACCEPT_BACKOFF).await;
            }
        }
    }
}

async fn serve(shared: Arc<Shared>, stream: TcpStream, peer: SocketAddr, place: Place) {
    let service = service_fn(|request| answer(shared.clone(), request));
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(HEADER_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        () = shared.stop.cancelled() => {}
        () = place.lost() => {}
        ended = connection => if let Err(e) = ended {
            tracing::debug!(%peer, error = %e, "admin connection");
        },
    }
}

type Answer = Response<Full<Bytes>>;

async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Answer, Infallible> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "GET or HEAD\n");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Ok(response);
    }
    if request.uri().path() == "/metrics" {
        return Ok(metrics(shared).await);
    }
    Ok(match health::answer(&shared, request.uri().path()).await {
        Some((status, body)) => {
            text(StatusCode::from_u16(status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE), body)
        }
        None => text(StatusCode::NOT_FOUND, "/metrics, /livez, /readyz or /healthz\n"),
    })
}

async fn metrics(shared: Arc<Shared>) -> Answer {
    // It looks at the file system, which may hang.
    let rendered = tokio::task::spawn_blocking(move || shared.metrics.render()).await;
    match rendered {
        Ok(Ok(body)) => with_type(Response::new(Full::new(body.into())), prometheus::TEXT_FORMAT),
        Ok(Err(e)) => {
            tracing::error!(error = %e, "the metrics cannot be rendered");
            text(StatusCode::INTERNAL_SERVER_ERROR, "internal\n")
        }
        Err(_) => text(StatusCode::INTERNAL_SERVER_ERROR, "internal\n"),
    }
}

fn text(status: StatusCode, body: &'static str) -> Answer {
    let mut response = Response::new(Full::new(Bytes::from_static(body.as_bytes())));
    *response.status_mut() = status;
    with_type(response, TEXT)
}

fn with_type(mut response: Answer, content_type: &'static str) -> Answer {
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
