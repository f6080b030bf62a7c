//! The sockets that are listened on. What a connection is served by follows from its socket.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use sidecar_intake::Intake;
use tokio::net::{TcpListener, UnixListener};

use super::tls::Tls;
use super::unix::SocketFile;
use super::{http, unix};
use crate::config::ListenUrl;
use crate::server::Shared;

#[derive(Debug)]
pub(crate) enum Listener {
    Tcp {
        listener: TcpListener,
        /// Where it speaks TLS.
        tls: Option<Arc<Tls>>,
    },
    /// The file goes with the listener.
    Unix { listener: UnixListener, _file: SocketFile },
}

impl Listener {
    /// `None` where nothing is listened on: stdio is there already.
    pub(crate) fn bind(url: &ListenUrl, tls: Option<&Arc<Tls>>) -> io::Result<Option<Listener>> {
        match url {
            ListenUrl::Ws(address) | ListenUrl::Wss(address) => {
                let tls = if url.is_tls() { tls.cloned() } else { None };
                Ok(Some(Listener::Tcp { listener: sidecar_intake::listen(*address)?, tls }))
            }
            ListenUrl::Unix(path) => {
                unix::listen(path).map(|(listener, _file)| Some(Listener::Unix { listener, _file }))
            }
            ListenUrl::Stdio => Ok(None),
        }
    }

    /// As clients write it, where it has a port.
    pub(crate) fn url(&self) -> Option<ListenUrl> {
        let address = self.tcp_addr()?;
        match self {
            Listener::Tcp { tls: Some(_), .. } => Some(ListenUrl::Wss(address)),
            _ => Some(ListenUrl::Ws(address)),
        }
    }

    fn tcp_addr(&self) -> Option<SocketAddr> {
        match self {
            Listener::Tcp { listener, .. } => listener.local_addr().ok(),
            Listener::Unix { .. } => None,
        }
    }

    /// Waits for a connection; gives what serves it to its end. Cancel safe.
    pub(crate) async fn accept(
        &self,
        shared: &Arc<Shared>,
        intake: &Arc<Intake>,
    ) -> io::Result<BoxFuture<'static, ()>> {
        match self {
            Listener::Tcp { listener, tls } => {
                let ((stream, peer), place) = shared.accept(intake, listener.accept()).await?;
                Ok(Box::pin(http::serve(shared.clone(), stream, tls.clone(), peer, place)))
            }
            Listener::Unix { listener, .. } => {
                let ((stream, _), place) = shared.accept(intake, listener.accept()).await?;
                Ok(Box::pin(unix::serve(shared.clone(), stream, place)))
            }
        }
    }
}
