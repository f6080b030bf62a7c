//! TLS to a `wss://` sidecar: its certificate must lead to one that this system trusts, or to one of `SSL_CERT_FILE`.

use std::io;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, version};

use super::url::WebSocketUrl;
use crate::error::Error;

/// Does the handshake. The trusted certificates are read anew each time: they can change, and connections are rare.
pub(super) async fn connect(url: &WebSocketUrl, tcp: TcpStream) -> Result<TlsStream<TcpStream>, Error> {
    let failed = |cause: io::Error| Error::Tls { url: url.to_string(), cause };
    let config = tokio::task::spawn_blocking(config).await.map_err(|e| failed(io::Error::other(e)))?;
    let name = ServerName::try_from(url.host.clone()).map_err(|e| failed(io::Error::other(e)))?;
    let connector = TlsConnector::from(Arc::new(config.map_err(failed)?));
    connector.connect(name, tcp).await.map_err(failed)
}

/// Blocking: it reads files.
fn config() -> io::Result<ClientConfig> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (used, _) = roots.add_parsable_certificates(found.certs);
    if used == 0 {
        let why = found.errors.first().map_or_else(|| "none are installed".to_owned(), ToString::to_string);
        return Err(io::Error::other(format!("no trusted certificates were found ({why})")));
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_protocol_versions(&[&version::TLS13]).map_err(io::Error::other)?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
