//! Stands for TLS where the program is built without it; the config refuses listeners that need it.

use std::io;
use std::sync::Arc;

use tokio::net::TcpStream;

use crate::config::TlsFiles;

/// There is none.
#[derive(Debug, thiserror::Error)]
#[error("this program is built without TLS")]
pub struct TlsError;

/// There is none.
#[derive(Debug)]
pub(crate) enum Tls {}

impl Tls {
    pub(crate) fn start(_: TlsFiles) -> Result<Arc<Tls>, TlsError> {
        Err(TlsError)
    }

    pub(crate) async fn accept(self: Arc<Self>, _: TcpStream) -> io::Result<TcpStream> {
        match *self {}
    }
}
