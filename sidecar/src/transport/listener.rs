//! The sockets that are listened on. What a connection is served by follows from its socket.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::net::{TcpListener, UnixListener};

use super::intake::Intake;
use super::unix::SocketFile;
use super::{http, unix};
use crate::config::ListenUrl;
use crate::server::Shared;

#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    /// The file goes with the listener.
    Unix {
        listener: UnixListener,
        _file: SocketFile,
    },
}

impl Listener {
    /// `None` where nothing is listened on: stdio is there already.
    pub(crate) async fn bind(url: &ListenUrl) -> io::Result<Option<Listener>> {
        match url {
            ListenUrl::Ws(address) => TcpListener::bind(address).await.map(Listener::Tcp).map(Some),
            ListenUrl::Unix(path) => {
                unix::listen(path).map(|(listener, _file)| Some(Listener::Unix { listener, _file }))
            }
            ListenUrl::Stdio => Ok(None),
        }
    }

    pub(crate) fn tcp_addr(&self) -> Option<SocketAddr> {
        match self {
            Listener::Tcp(listener) => listener.local_addr().ok(),
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
            Listener::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok(Box::pin(http::serve(shared.clone(), stream, peer, shared.enter(intake))))
            }
            Listener::Unix { listener, .. } => {
                let (stream, _) = listener.accept().await?;
                Ok(Box::pin(unix::serve(shared.clone(), stream, shared.enter(intake))))
            }
        }
    }
}
