//! Where clients of a gateway connect: WebSockets on a TCP port, for whoever shows the gateway's token.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sidecar_intake::{Intake, Place};
use subtle::ConstantTimeEq as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::{StatusCode, header};
use tokio_util::sync::CancellationToken;

use super::Gateway;
use crate::error::Error;
use crate::transport;

/// Clients at the same time; the next one is told that there are too many.
const CLIENTS: usize = 64;

/// Connections that were not let in yet; the next one takes the place of the oldest.
const PLACES: usize = 64;

/// How long the upgrade may take.
const UPGRADE_TIMEOUT: Duration = Duration::from_secs(10);

/// Before the next accept where the process is out of descriptors.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// Who may connect.
#[derive(Clone)]
pub enum Access {
    /// Whoever shows this token.
    Token(Arc<str>),
    /// Whoever is on this host.
    Loopback,
}

impl Access {
    /// The token that a file holds.
    ///
    /// # Errors
    /// [`Error::TokenRead`], [`Error::TokenContent`].
    pub fn token_file(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path)
            .map_err(|cause| Error::TokenRead { path: path.to_owned(), cause })?;
        let token = text.trim();
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Error::TokenContent { path: path.to_owned() });
        }
        Ok(Self::Token(token.into()))
    }

    /// What is wrong with an upgrade, if anything.
    fn refusal(&self, request: &Request) -> Option<StatusCode> {
        // A page in a browser must not drive the sidecar.
        if request.headers().contains_key(header::ORIGIN) {
            return Some(StatusCode::FORBIDDEN);
        }
        let Access::Token(token) = self else { return None };
        let shown = request.headers().get(header::AUTHORIZATION).map(|value| value.as_bytes());
        let shown = shown.and_then(|value| value.strip_prefix(b"Bearer ")).unwrap_or_default();
        let equal: bool = shown.ct_eq(token.as_bytes()).into();
        (!equal).then_some(StatusCode::UNAUTHORIZED)
    }
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Access::Token(_) => "Token(…)",
            Access::Loopback => "Loopback",
        })
    }
}

/// A port that clients connect to.
#[derive(Debug)]
pub struct Listener {
    tcp: TcpListener,
    addr: SocketAddr,
    access: Access,
}

impl Listener {
    /// Listens. Port 0 picks one.
    ///
    /// # Errors
    /// [`Error::GatewayOpen`] where anybody could connect from elsewhere; [`Error::GatewayListen`].
    pub async fn bind(addr: SocketAddr, access: Access) -> Result<Self, Error> {
        if matches!(access, Access::Loopback) && !addr.ip().is_loopback() {
            return Err(Error::GatewayOpen { addr });
        }
        let failed = |cause| Error::GatewayListen { addr, cause };
        let tcp = sidecar_intake::listen(addr).map_err(failed)?;
        let addr = tcp.local_addr().map_err(failed)?;
        Ok(Self { tcp, addr, access })
    }

    /// `ws://IP:PORT`
    pub fn url(&self) -> String {
        format!("ws://{}", self.addr)
    }

    pub(super) async fn serve(self, gateway: &Gateway, stop: &CancellationToken) {
        let door = Door { access: self.access, slots: Arc::new(Semaphore::new(CLIENTS)) };
        let intake = Intake::new(PLACES);
        let mut clients = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => break,
                _ = clients.join_next(), if !clients.is_empty() => continue,
                accepted = intake.accept(self.tcp.accept()) => accepted,
            };
            match accepted {
                // No log line for who loses its place: a flood would write one per connection.
                Ok((client, place)) => {
                    let (gateway, stop, door) = (gateway.clone(), stop.clone(), door.clone());
                    clients.spawn(async move { serve(&gateway, client, &door, place, &stop).await });
                }
                Err(e) => {
                    // Most likely out of descriptors: the connection stays queued, and accept would fail again at once.
                    tracing::warn!(error = %e, "cannot accept a client");
                    tokio::time::sleep(ACCEPT_BACKOFF).await;
                }
            }
        }
        while clients.join_next().await.is_some() {}
    }
}

/// Who is let in, and how many.
#[derive(Clone)]
struct Door {
    access: Access,
    slots: Arc<Semaphore>,
}

impl Door {
    /// What an upgrade is answered with: a client's slot, or why there is none.
    fn knock(&self, request: &Request) -> Result<OwnedSemaphorePermit, StatusCode> {
        match self.access.refusal(request) {
            Some(status) => Err(status),
            None => Arc::clone(&self.slots).try_acquire_owned().map_err(|_| StatusCode::SERVICE_UNAVAILABLE),
        }
    }
}

async fn serve(
    gateway: &Gateway,
    (tcp, peer): (TcpStream, SocketAddr),
    door: &Door,
    place: Place,
    stop: &CancellationToken,
) {
    // Without it, small messages wait for one another.
    let _ = tcp.set_nodelay(true);
    let mut slot = None;
    #[expect(clippy::result_large_err, reason = "the type of tungstenite's callback")]
    let check = |request: &Request, response: Response| match door.knock(request) {
        Ok(permit) => {
            slot = Some(permit);
            place.leave();
            Ok(response)
        }
        Err(status) => {
            let mut refusal = ErrorResponse::new(None);
            *refusal.status_mut() = status;
            Err(refusal)
        }
    };
    let upgrade = tokio_tungstenite::accept_hdr_async_with_config(tcp, check, Some(transport::limits()));
    let upgraded = tokio::select! {
        () = stop.cancelled() => return,
        () = place.lost() => {
            tracing::debug!(%peer, "a newer connection takes its place");
            return;
        }
        upgraded = tokio::time::timeout(UPGRADE_TIMEOUT, upgrade) => upgraded,
    };
    drop(place);
    match upgraded {
        Ok(Ok(socket)) => {
            if let Err(e) = gateway.serve(transport::accepted(socket), stop).await {
                tracing::warn!(%peer, error = %e, "a client's session ended");
            }
        }
        Ok(Err(e)) => tracing::info!(%peer, error = %e, "a client was not let in"),
        Err(_) => tracing::info!(%peer, "a client did not ask for a WebSocket in time"),
    }
    drop(slot);
}
