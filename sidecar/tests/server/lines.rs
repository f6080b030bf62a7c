//! The three transports: one setting for all, and the client's side of newline-delimited JSON.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

use futures_util::future::BoxFuture;
use sandbox_sidecar::config::{Config, ListenUrl};
use tempfile::TempDir;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::unix::pipe;
use tokio::net::{TcpStream, UnixStream};
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::admin::{Scrape, with_admin};
use crate::common::{Client, Fixture, Link, scratch};

const SOCKET: &str = "sock";

/// `limits.processes` of every setting: few enough to be reached.
pub(crate) const PROCESSES: usize = 8;

/// A message per line, both ways.
pub(crate) struct Lines {
    input: Box<dyn AsyncBufRead + Unpin + Send>,
    output: Box<dyn AsyncWrite + Unpin + Send>,
}

impl Lines {
    pub(crate) async fn connect(path: &Path) -> Lines {
        let (input, output) = UnixStream::connect(path).await.expect("connected").into_split();
        Lines { input: Box::new(BufReader::new(input)), output: Box::new(output) }
    }

    pub(crate) fn of(child: &mut Child) -> Lines {
        let output = OwnedFd::from(child.stdin.take().expect("stdin"));
        let input = OwnedFd::from(child.stdout.take().expect("stdout"));
        Lines {
            input: Box::new(BufReader::new(pipe::Receiver::from_owned_fd(input).expect("a pipe"))),
            output: Box::new(pipe::Sender::from_owned_fd(output).expect("a pipe")),
        }
    }
}

impl Link for Lines {
    fn send(&mut self, message: Message) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.output.write_all(&message.into_data()).await.expect("the line is sent");
            self.output.write_all(b"\n").await.expect("the line is sent");
        })
    }

    fn next(&mut self) -> BoxFuture<'_, Option<Result<Message, Error>>> {
        Box::pin(async {
            loop {
                let mut line = String::new();
                let read = self.input.read_line(&mut line).await.unwrap_or(0);
                // A blank line is a ping. This client does not answer.
                if read == 0 || !line.trim_end().is_empty() {
                    return (read > 0).then(|| Ok(Message::text(line.trim_end())));
                }
            }
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Ws,
    Unix,
    Stdio,
}

/// A server, a workspace, and a client over one transport.
pub(crate) struct Setting {
    pub(crate) client: Client,
    /// Over stdio it only lends its workspace: the server is a process of its own.
    pub(crate) fixture: Fixture,
    pub(crate) transport: Transport,
    child: Option<Child>,
    admin: SocketAddr,
    sockets: TempDir,
}

impl Setting {
    /// With a client that has done the handshake.
    pub(crate) async fn start(transport: Transport) -> Setting {
        let mut setting = Setting::bare(transport).await;
        setting.client.open().await;
        setting
    }

    /// The server's process, where it is one of its own.
    pub(crate) fn server_pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// What the server counts.
    pub(crate) async fn scrape(&self) -> Scrape {
        Scrape::at(self.admin).await
    }

    pub(crate) fn socket_path(&self) -> PathBuf {
        self.sockets.path().join(SOCKET)
    }

    /// With a client that has said nothing yet.
    pub(crate) async fn bare(transport: Transport) -> Setting {
        Setting::with_abi(transport, None).await
    }

    /// With a server that uses no Landlock ABI above that one, and a client that has said nothing yet.
    pub(crate) async fn with_abi(transport: Transport, max_abi: Option<u32>) -> Setting {
        let sockets = scratch();
        let path = sockets.path().join(SOCKET);
        let fixture = Fixture::with(|config: &mut Config| {
            config.limits.processes = PROCESSES;
            config.sandbox.max_abi = max_abi;
            with_admin(config);
            config.listen = match transport {
                Transport::Ws => vec!["ws://127.0.0.1:0".parse().expect("a URL")],
                Transport::Unix => vec![ListenUrl::Unix(path.clone())],
                Transport::Stdio => Vec::new(),
            };
        })
        .await;
        let own = own_addr();
        let mut child = (transport == Transport::Stdio).then(|| {
            let mut command = stdio_server(&fixture.ws(""), Some(own));
            command.env("SANDBOX_SIDECAR_LIMITS_PROCESSES", PROCESSES.to_string());
            command.envs(max_abi.map(|abi| ("SANDBOX_SIDECAR_LANDLOCK_MAX_ABI", abi.to_string())));
            command.spawn().expect("the server starts")
        });
        let client = match (transport, &mut child) {
            (Transport::Ws, _) => over_tcp(fixture.server.local_addrs()[0]).await,
            (Transport::Unix, _) => Client::linked(Lines::connect(&path).await),
            (Transport::Stdio, child) => Client::linked(Lines::of(child.as_mut().expect("a child"))),
        };
        let admin = if child.is_some() { own } else { fixture.server.admin_addr().expect("an admin port") };
        Setting { client, fixture, transport, child, admin, sockets }
    }
}

/// For a server that cannot say which port the kernel has picked: an address of this process alone, and a port of one server.
fn own_addr() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(20_000);
    let [_, a, b, c] = std::process::id().to_be_bytes();
    // Below 127.64 somebody may have something of their own. The kernel's pids have 22 bits at most, proc_pid_max(5).
    (Ipv4Addr::new(127, 64 | a, b, c), NEXT.fetch_add(1, Ordering::Relaxed)).into()
}

impl Drop for Setting {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A WebSocket over TCP, without a token.
pub(crate) async fn over_tcp(addr: SocketAddr) -> Client {
    let stream = TcpStream::connect(addr).await.expect("connected");
    let upgraded = tokio_tungstenite::client_async(format!("ws://{addr}/"), stream).await;
    // The server says nothing before it is asked, so nothing was read ahead.
    Client::over(upgraded.expect("upgraded").0.into_inner()).await
}

/// The binary itself, on its stdin and stdout.
pub(crate) fn serve_stdio(workspace: &Path) -> Child {
    stdio_server(workspace, None).spawn().expect("the server starts")
}

/// The binary, to be started on its stdin and stdout, with an admin port where one is wanted.
pub(crate) fn stdio_server(workspace: &Path, admin: Option<SocketAddr>) -> Command {
    listening(&["--listen", "stdio://"], admin, workspace)
}

/// The binary, to be started on a port, for whoever comes.
pub(crate) fn ws_server(workspace: &Path) -> Command {
    listening(&["--listen", "ws://127.0.0.1:0", "--insecure-no-auth"], None, workspace)
}

/// Where it listens, which is the first line that it says.
pub(crate) fn announced(child: &mut Child) -> SocketAddr {
    let mut line = String::new();
    let stdout = child.stdout.as_mut().expect("stdout");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).expect("a line");
    line.trim().strip_prefix("ws://").and_then(|addr| addr.parse().ok()).expect("a URL")
}

fn listening(how: &[&str], admin: Option<SocketAddr>, workspace: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sandbox-sidecar"));
    let admin = admin.map_or_else(String::new, |admin| admin.to_string());
    command.args(how).args(["--admin-listen", &admin, "--audit-sink", "none"]);
    command
        .args(["--log-filter", "error", "--workspace-root"])
        .arg(workspace)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}

/// Runs a test over each transport, as three tests. The client has done the handshake, unless `bare` comes first.
macro_rules! over_each_transport {
    (bare: $($test:ident),+ $(,)?) => { over_each_transport![@bare $($test),+]; };
    ($($test:ident),+ $(,)?) => { over_each_transport![@start $($test),+]; };
    (@$start:ident $($test:ident),+) => {$(
        mod $test {
            use crate::lines::{Setting, Transport};

            #[tokio::test]
            async fn ws() {
                super::$test(Setting::$start(Transport::Ws).await).await;
            }

            #[tokio::test]
            async fn unix() {
                super::$test(Setting::$start(Transport::Unix).await).await;
            }

            #[tokio::test]
            async fn stdio() {
                super::$test(Setting::$start(Transport::Stdio).await).await;
            }
        }
    )+};
}
pub(crate) use over_each_transport;
