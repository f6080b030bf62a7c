//! TLS before the HTTP of a listener. The files of the certificate and its key are read again at every handshake, and
//! used once they belong together: until then, and where they are broken, the last ones stay.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, version};
use tokio_rustls::server::TlsStream;

use crate::config::TlsFiles;

/// The first byte of a client that speaks TLS: the record of a handshake.
const HANDSHAKE: u8 = 0x16;

/// What a client is told that speaks plain HTTP.
const PLAIN: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n\
    this port speaks TLS: use wss:// or HTTPS\n";

/// Why there is no certificate to show.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{key} {file:?}: {cause}")]
    Unreadable {
        /// The config key.
        key: &'static str,
        /// The file.
        file: PathBuf,
        /// What the OS said.
        cause: io::Error,
    },
    /// The files do not hold what they should.
    #[error(
        "tls.certFile {cert:?}, tls.keyFile {key:?}: {why}; expected a certificate chain and the private key of its first \
         certificate, both in PEM"
    )]
    Content {
        /// The certificate's.
        cert: PathBuf,
        /// The key's.
        key: PathBuf,
        /// What is wrong.
        why: String,
    },
}

/// What a listener shows.
#[derive(Debug)]
pub(crate) struct Tls {
    files: TlsFiles,
    current: Mutex<Loaded>,
}

#[derive(Debug)]
struct Loaded {
    /// What the files held when they were looked at last; not more than once is told that they are broken.
    seen: Pem,
    config: Arc<ServerConfig>,
}

#[derive(PartialEq, Eq)]
struct Pem {
    cert: Vec<u8>,
    key: Vec<u8>,
}

impl std::fmt::Debug for Pem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pem(…)")
    }
}

impl Tls {
    /// Blocking: it reads the files.
    pub(crate) fn start(files: TlsFiles) -> Result<Arc<Tls>, TlsError> {
        let seen = read(&files)?;
        let config = configure(&files, &seen)?;
        Ok(Arc::new(Tls { files, current: Mutex::new(Loaded { seen, config }) }))
    }

    /// Speaks TLS with who has connected; a client that speaks plain HTTP is told.
    pub(crate) async fn accept(self: Arc<Self>, mut stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let mut first = [0];
        if stream.peek(&mut first).await? == 1 && first[0] != HANDSHAKE {
            stream.write_all(PLAIN).await?;
            stream.shutdown().await?;
            // What is not read would make the kernel take the answer back.
            tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it speaks no TLS"));
        }
        let config = tokio::task::spawn_blocking(move || self.config()).await.map_err(io::Error::other)?;
        TlsAcceptor::from(config).accept(stream).await
    }

    fn config(&self) -> Arc<ServerConfig> {
        let read = read(&self.files);
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        match read {
            Ok(seen) if seen == current.seen => {}
            Ok(seen) => {
                match configure(&self.files, &seen) {
                    Ok(config) => {
                        tracing::info!("another certificate is shown from now on");
                        current.config = config;
                    }
                    Err(error) => tracing::error!(%error, "the last certificate stays"),
                }
                current.seen = seen;
            }
            Err(error) => tracing::debug!(%error, "the last certificate stays"),
        }
        current.config.clone()
    }
}

fn read(files: &TlsFiles) -> Result<Pem, TlsError> {
    let read = |(key, file): (&'static str, &Path)| {
        std::fs::read(file).map_err(|cause| TlsError::Unreadable { key, file: file.to_owned(), cause })
    };
    let [cert, key] = files.files();
    Ok(Pem { cert: read(cert)?, key: read(key)? })
}

fn configure(files: &TlsFiles, pem: &Pem) -> Result<Arc<ServerConfig>, TlsError> {
    let wrong = |why: String| TlsError::Content { cert: files.cert.clone(), key: files.key.clone(), why };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem.cert).collect();
    let chain = chain.map_err(|e| wrong(format!("the certificate: {e}")))?;
    let key = PrivateKeyDer::from_pem_slice(&pem.key).map_err(|e| wrong(format!("the key: {e}")))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&version::TLS13])
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|e| wrong(e.to_string()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
