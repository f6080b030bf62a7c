//! `gateway`: stock clients in, a sidecar elsewhere out.

use std::net::SocketAddr;
use std::path::PathBuf;

use agent_client::gateway::{Access, Listener};
use agent_client::metrics::Report;
use agent_client::{Gateway, Metrics};
use anyhow::{Context as _, bail};
use tokio::io::AsyncWriteExt as _;
use tokio_util::sync::CancellationToken;

use super::connection::Connection;
use super::signals::{Received, Signals};

/// Lets stock clients reach the sidecar: adds the token, maps paths both ways, survives lost connections
#[derive(Debug, clap::Args)]
#[command(after_help = "Example, as a program that the stock CLI starts (environments.toml):\n  \
    program = \"agent-client\"\n  args = [\"gateway\", \"--sidecar-url\", \"ws://10.0.0.7:8790\"]\n\n\
    Example, as a server for several:\n  \
    agent-client gateway --listen ws://127.0.0.1:8791 --listen-token-file ./gateway-token")]
pub(super) struct Args {
    /// stdio:// for the client that starts this program, or ws://IP:PORT
    #[arg(long, value_name = "URL", default_value = "stdio://", value_parser = listen)]
    listen: Listen,
    /// File that holds the token which clients of a ws:// listener must show
    #[arg(long, value_name = "FILE", conflicts_with = "insecure_no_auth")]
    listen_token_file: Option<PathBuf>,
    /// Ask the clients of a ws:// listener for no token; loopback only
    #[arg(long)]
    insecure_no_auth: bool,
    // Last, for its heading holds for what follows.
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Listen {
    Stdio,
    WebSocket(SocketAddr),
}

fn listen(text: &str) -> Result<Listen, String> {
    if text == "stdio://" {
        return Ok(Listen::Stdio);
    }
    let addr = text.strip_prefix("ws://").map(|addr| addr.trim_end_matches('/').parse());
    match addr {
        Some(Ok(addr)) => Ok(Listen::WebSocket(addr)),
        _ => Err("expected stdio:// or ws://IP:PORT".to_owned()),
    }
}

/// Serves until the client ends (stdio) or a signal comes; the result is the exit code.
pub(super) async fn run(args: Args) -> anyhow::Result<u8> {
    keep_freed_memory();
    let config = args.connection.config()?;
    let mut signals = Signals::listen().context("cannot listen for signals")?;
    let report = Report::start(&config, Metrics::new()).await?;
    let gateway = Gateway::new(&config, report.metrics().clone())?;
    let stop = CancellationToken::new();
    let access = match (args.listen_token_file, args.insecure_no_auth) {
        (Some(file), _) => Some(Access::token_file(&file)?),
        (None, true) => Some(Access::Loopback),
        (None, false) => None,
    };
    let serving = async {
        match (args.listen, access) {
            (Listen::Stdio, _) => gateway.serve_stdio(&stop).await.map_err(anyhow::Error::from),
            (Listen::WebSocket(_), None) => bail!(
                "a ws:// listener lets every process of this host launch commands; give it a token by \
                 --listen-token-file, or --insecure-no-auth"
            ),
            (Listen::WebSocket(addr), Some(access)) => {
                let listener = Listener::bind(addr, access).await?;
                let mut stdout = tokio::io::stdout();
                stdout.write_all(format!("{}\n", listener.url()).as_bytes()).await?;
                stdout.flush().await?;
                gateway.serve_listener(listener, &stop).await;
                Ok(())
            }
        }
    };
    let mut serving = std::pin::pin!(serving);
    let served = loop {
        tokio::select! {
            served = &mut serving => break served,
            signal = signals.end() => match (args.listen, signal) {
                // A Ctrl-C is for the client, which ends this program by ending its stdin.
                (Listen::Stdio, Received::Interrupt) => {}
                _ => stop.cancel(),
            }
        }
    };
    // Also of what failed.
    report.finish().await?;
    served.map(|()| 0)
}

/// Lets glibc keep the memory of a message for the next one. By default a thread's heap gives back what is free at its top beyond
/// 128 KiB (`M_TRIM_THRESHOLD`, mallopt(3)), which is less than two messages of a flood, and each page of the next one is faulted
/// in anew. The first large block that is freed raises the threshold to twice its size.
fn keep_freed_memory() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(1 << 20)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners() {
        assert_eq!(listen("stdio://"), Ok(Listen::Stdio));
        assert_eq!(listen("ws://127.0.0.1:0"), Ok(Listen::WebSocket(([127, 0, 0, 1], 0).into())));
        for text in ["ws://localhost:1", "unix:///x", "wss://127.0.0.1:1", "ws://127.0.0.1", ""] {
            assert!(listen(text).unwrap_err().contains("ws://IP:PORT"), "{text}");
        }
    }
}
