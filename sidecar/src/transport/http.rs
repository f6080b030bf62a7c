//! HTTP/1.1 on a listener's port: health, and the upgrade to a WebSocket. Decides who gets in; knows no messages.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use sidecar_intake::Place;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::audit::Event;
use crate::auth;
use crate::auth::throttle::{Failure, Origin};
use crate::caller::Caller;
use crate::health::{self, State};
use crate::server::Shared;
use crate::transport::tls::Tls;
use crate::transport::ws;

/// What the kernel may hold of what was sent, bytes, where it would let it grow to megabytes by itself: it is lost with
/// the connection.
const SEND_BUFFER: usize = 256 << 10;

/// The head of a request fits, with room to spare.
const HEADER_BYTES: usize = 16 << 10;

/// Serves one TCP connection until it is upgraded, or to its end. One request, so that it is over soon.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    stream: TcpStream,
    tls: Option<Arc<Tls>>,
    peer: SocketAddr,
    place: Place,
) {
    // No TCP_USER_TIMEOUT: the kernel counts a full receive window as silence too, and would cut off a client that only
    // reads slowly. Pings find the dead ones.
    let options =
        stream.set_nodelay(true).and_then(|()| SockRef::from(&stream).set_send_buffer_size(SEND_BUFFER));
    if let Err(e) = options {
        tracing::debug!(%peer, error = %e, "socket options");
    }
    let served = async {
        match tls {
            None => one_request(&shared, stream, peer, &place).await,
            Some(tls) => match tls.accept(stream).await {
                Ok(stream) => one_request(&shared, stream, peer, &place).await,
                Err(e) => tracing::debug!(%peer, error = %e, "TLS"),
            },
        }
    };
    tokio::select! {
        () = shared.stop.cancelled() => {}
        () = place.lost() => tracing::debug!(%peer, "a newer connection takes its place (limits.handshakes)"),
        () = tokio::time::sleep(shared.config.limits.handshake) => {
            tracing::debug!(%peer, "too slow (limits.handshakeSeconds)");
            shared.metrics.requests.rejected("handshakeSeconds");
        }
        () = served => {}
    }
}

/// What a connection is upgraded from.
trait Io: AsyncRead + AsyncWrite + Unpin + Send + 'static {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Io for S {}

async fn one_request<S: Io>(shared: &Arc<Shared>, stream: S, peer: SocketAddr, place: &Place) {
    let service = service_fn(|request| answer::<S>(shared.clone(), request, peer, place));
    let connection = hyper::server::conn::http1::Builder::new()
        .max_buf_size(HEADER_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    if let Err(e) = connection.await {
        tracing::debug!(%peer, error = %e, "http connection");
    }
}

type Answer = Response<Full<Bytes>>;

/// An answer that lets nobody in. Boxed: it is large, and rare.
type Refusal = Box<Answer>;

async fn answer<S: Io>(
    shared: Arc<Shared>,
    request: Request<Incoming>,
    peer: SocketAddr,
    place: &Place,
) -> Result<Answer, Infallible> {
    if matches!(*request.method(), Method::GET | Method::HEAD)
        && let Some((status, text)) = health::answer(&shared, request.uri().path()).await
    {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
        return Ok(last(plain(status, text)));
    }
    Ok(upgrade::<S>(shared, request, peer, place).await.unwrap_or_else(|refusal| last(*refusal)))
}

/// Lets the client in, or says how it is refused. Nothing about the server is told before the token was right.
async fn upgrade<S: Io>(
    shared: Arc<Shared>,
    request: Request<Incoming>,
    peer: SocketAddr,
    place: &Place,
) -> Result<Answer, Refusal> {
    let headers = request.headers();
    if let Some(origin) = headers.get(header::ORIGIN)
        && !shared.config.allowed_origins.iter().any(|allowed| allowed.as_bytes() == origin.as_bytes())
    {
        shared.metrics.requests.rejected("origin");
        return Err(refused(&shared, peer, plain(StatusCode::FORBIDDEN, "origin not allowed\n"), |_| {
            tracing::warn!(%peer, ?origin, "refused: this origin is not allowed (allowedOrigins)");
        }));
    }
    let authorization = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
    let client = shared.auth.admit(authorization).await.map_err(|why| unauthorized(&shared, peer, &why))?;
    let key = websocket_key(request.method(), headers)?;
    let permit = slot(&shared)?;
    let accept = HeaderValue::from_str(&derive_accept_key(key.as_bytes()))
        .map_err(|_| plain(StatusCode::BAD_REQUEST, "bad Sec-WebSocket-Key\n"))?;
    place.leave();
    tracing::info!(%peer, principal = client, "connected");
    let caller = Caller::tcp(client, peer);
    shared.tasks.clone().spawn(upgraded::<S>(shared, request, permit, caller));

    let mut response = plain(StatusCode::SWITCHING_PROTOCOLS, "");
    response.headers_mut().remove(header::CONTENT_TYPE);
    let response = with(response, header::CONNECTION, "upgrade");
    let mut response = with(response, header::UPGRADE, "websocket");
    response.headers_mut().insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    Ok(response)
}

/// How a client is refused that shows no valid token.
fn unauthorized(shared: &Shared, peer: SocketAddr, why: &auth::Refusal) -> Refusal {
    shared.metrics.requests.auth_failed(why.name());
    let answer = with(plain(StatusCode::UNAUTHORIZED, "unauthorized\n"), header::WWW_AUTHENTICATE, "Bearer");
    refused(shared, peer, answer, |unrecorded| {
        match why {
            auth::Refusal::Unavailable(error) => {
                tracing::error!(%peer, %error, "refused: there is nothing to check a token against");
            }
            _ => tracing::warn!(%peer, reason = why.name(), "refused: wrong or missing token"),
        }
        let unrecorded = (unrecorded > 0).then_some(unrecorded);
        let event = Event { reason: Some(why.name()), unrecorded, ..Event::new("auth.failure") };
        shared.audit.record(&Event { peer: Some(peer.to_string()), ..event });
    })
}

/// The answer to a client that may not connect. Told in logs and records unless there were too many: then that is told,
/// once, and the answer is another one.
fn refused(shared: &Shared, peer: SocketAddr, answer: Answer, tell: impl FnOnce(u64)) -> Refusal {
    let left = match shared.failures.fail(Origin::of(peer.ip())) {
        Failure::Told { untold } => {
            tell(untold);
            return answer.into();
        }
        Failure::TooMany { limit, left } => {
            tracing::warn!(%peer, limit, "refused, and too often: what follows is counted, not logged");
            let event = Event { reason: Some(limit), ..Event::new("auth.throttled") };
            shared.audit.record(&Event { peer: Some(peer.to_string()), ..event });
            left
        }
        Failure::More { left } => left,
    };
    shared.metrics.requests.rejected("authFailures");
    let mut answer = plain(StatusCode::TOO_MANY_REQUESTS, "too many failed attempts\n");
    // Whole seconds, and none too early.
    answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(left.as_secs() + 1));
    answer.into()
}

fn websocket_key(method: &Method, headers: &HeaderMap) -> Result<HeaderValue, Refusal> {
    if method != Method::GET || !has_token(headers, &header::UPGRADE, "websocket") {
        let refusal = plain(StatusCode::UPGRADE_REQUIRED, "this is a WebSocket endpoint\n");
        return Err(with(with(refusal, header::UPGRADE, "websocket"), header::CONNECTION, "upgrade").into());
    }
    if !has_token(headers, &header::CONNECTION, "upgrade") {
        return Err(plain(StatusCode::BAD_REQUEST, "Connection: upgrade is missing\n").into());
    }
    if headers.get(header::SEC_WEBSOCKET_VERSION).is_none_or(|version| version.as_bytes() != b"13") {
        let refusal = plain(StatusCode::UPGRADE_REQUIRED, "Sec-WebSocket-Version must be 13\n");
        return Err(with(refusal, header::SEC_WEBSOCKET_VERSION, "13").into());
    }
    let key = headers.get(header::SEC_WEBSOCKET_KEY);
    key.cloned().ok_or_else(|| plain(StatusCode::BAD_REQUEST, "Sec-WebSocket-Key is missing\n").into())
}

fn slot(shared: &Shared) -> Result<OwnedSemaphorePermit, Refusal> {
    if shared.health.get() == State::Draining {
        shared.metrics.requests.rejected("draining");
        return Err(plain(StatusCode::SERVICE_UNAVAILABLE, "shutting down\n").into());
    }
    shared.connections.clone().try_acquire_owned().map_err(|_| {
        shared.metrics.requests.rejected("connections");
        tracing::warn!("refused: too many connections (limits.connections)");
        plain(StatusCode::SERVICE_UNAVAILABLE, "too many connections (limits.connections)\n").into()
    })
}

async fn upgraded<S: Io>(
    shared: Arc<Shared>,
    request: Request<Incoming>,
    permit: OwnedSemaphorePermit,
    caller: Caller,
) {
    match hyper::upgrade::on(request).await {
        Ok(upgraded) => match upgraded.downcast::<TokioIo<S>>() {
            Ok(parts) => {
                ws::serve_upgraded(shared, parts.io.into_inner(), parts.read_buf.into(), caller).await
            }
            Err(_) => tracing::error!("the upgraded connection is another stream"),
        },
        Err(e) => tracing::debug!(error = %e, "upgrade"),
    }
    drop(permit);
}

/// Whether a header that is a list of tokens holds this one.
fn has_token(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|item| item.trim().eq_ignore_ascii_case(token))
}

fn plain(status: StatusCode, text: &'static str) -> Answer {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    with(response, header::CONTENT_TYPE, "text/plain; charset=utf-8")
}

/// An answer with which the connection ends.
fn last(mut response: Answer) -> Answer {
    response.headers_mut().append(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

fn with(mut response: Answer, name: HeaderName, value: &'static str) -> Answer {
    response.headers_mut().insert(name, HeaderValue::from_static(value));
    response
}
