//! How a connection comes to be: a WebSocket with the token, a unix socket, the stdin and stdout of a program, or a
//! stream within this process.
//!
//! It reads the token file, looks names up and starts programs. What is said on a connection is [`crate::client`]'s.

mod lines;
mod program;
#[cfg(feature = "tls")]
mod tls;
mod url;
mod websocket;

use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{Sink, Stream};
use tokio_tungstenite::tungstenite::Utf8Bytes;

pub(crate) use lines::over_stdio;
pub use program::{Pod, Program};
pub use url::SidecarUrl;
pub use websocket::in_process;
pub(crate) use websocket::{accepted, limits};

use crate::config::Config;
use crate::error::Error;

/// What comes.
#[derive(Debug)]
pub(crate) enum Received {
    /// One message.
    Text(Utf8Bytes),
    /// A sign of life that is no message.
    Alive,
    /// The peer ends the connection, and says why.
    Close {
        /// The WebSocket close code, where there is one.
        code: Option<u16>,
        /// For people; may be empty.
        reason: String,
    },
}

/// What goes out.
#[derive(Debug)]
pub(crate) enum Sent {
    /// One message.
    Text(Utf8Bytes),
    /// Asks for a sign of life, where the transport has a way to ask.
    Ping,
    /// The last thing: why the connection ends, where the transport has a way to say so.
    Close(u16, String),
}

/// The receiving half. An error says why there will be nothing more.
pub(crate) type Incoming = Pin<Box<dyn Stream<Item = Result<Received, String>> + Send>>;
/// The sending half.
pub(crate) type Outgoing = Pin<Box<dyn Sink<Sent, Error = String> + Send>>;

/// A stream of messages to a peer, whatever carries them. Closed on drop.
pub struct Connection {
    pub(crate) incoming: Incoming,
    pub(crate) outgoing: Outgoing,
    /// Whether the peer answers pings.
    pub(crate) pings: bool,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("pings", &self.pings).finish_non_exhaustive()
    }
}

/// Makes connections to one sidecar: the first, and the next one where that is lost.
pub trait Connect: Send + Sync + fmt::Debug {
    /// Makes one.
    ///
    /// # Errors
    /// Those of [`Error`] that are about the way to the sidecar.
    fn connect(&self) -> BoxFuture<'_, Result<Connection, Error>>;
}

/// The way to a sidecar elsewhere.
#[derive(Debug, Clone)]
pub struct Remote {
    target: Target,
    /// Limit for one attempt.
    timeout: Duration,
}

#[derive(Debug, Clone)]
enum Target {
    WebSocket { url: SidecarUrl, token_file: Option<PathBuf> },
    Program(Program),
}

impl Remote {
    /// By URL. The token is read anew for each connection, since the sidecar's can change.
    pub fn url(url: SidecarUrl, token_file: Option<PathBuf>, timeout: Duration) -> Self {
        Self { target: Target::WebSocket { url, token_file }, timeout }
    }

    /// By the stdin and stdout of a program, which is started anew for each connection.
    pub fn program(program: Program, timeout: Duration) -> Self {
        Self { target: Target::Program(program), timeout }
    }

    /// The one that the config names; `None` where it names none.
    pub fn of(config: &Config) -> Option<Arc<dyn Connect>> {
        let timeout = config.connect_timeout;
        let remote = match (&config.kube, &config.sidecar_url) {
            (Some(pod), _) => Self::program(pod.program(), timeout),
            (None, Some(url)) => Self::url(url.clone(), config.token_file.clone(), timeout),
            (None, None) => return None,
        };
        Some(Arc::new(remote))
    }
}

impl Connect for Remote {
    fn connect(&self) -> BoxFuture<'_, Result<Connection, Error>> {
        Box::pin(async move {
            match &self.target {
                Target::WebSocket { url, token_file } => {
                    connect(url, token_file.as_deref(), self.timeout).await
                }
                Target::Program(program) => program.connect(),
            }
        })
    }
}

/// Connects to a URL within `timeout`.
///
/// # Errors
/// The errors of [`Error`] that are about the token, the connection and the upgrade.
pub async fn connect(
    url: &SidecarUrl,
    token_file: Option<&std::path::Path>,
    timeout: Duration,
) -> Result<Connection, Error> {
    let attempt = async {
        match url {
            SidecarUrl::WebSocket(url) => websocket::connect(url, token_file).await,
            SidecarUrl::Unix(path) => lines::connect(path).await,
        }
    };
    tokio::time::timeout(timeout, attempt)
        .await
        .unwrap_or_else(|_| Err(Error::ConnectTimeout { url: url.to_string(), after: timeout }))
}
