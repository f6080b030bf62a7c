//! Signals to agent-client, passed on to the command.
//!
//! A request is sent by a task of its own and its answer waited for there: whoever follows the command's events must not
//! wait for answers, which come after them on the same connection.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::task::Poll;

use agent_client::protocol::process::{Signal, Size};
use agent_client::{Error, ExecProcess};
use tokio::signal::unix::{self, SignalKind};

/// A signal that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Received {
    Interrupt,
    Quit,
    Terminate,
    Hangup,
    /// The terminal has another size.
    Resized,
}

impl Received {
    const ALL: [Received; 5] =
        [Received::Interrupt, Received::Quit, Received::Terminate, Received::Hangup, Received::Resized];

    fn kind(self) -> SignalKind {
        match self {
            Received::Interrupt => SignalKind::interrupt(),
            Received::Quit => SignalKind::quit(),
            Received::Terminate => SignalKind::terminate(),
            Received::Hangup => SignalKind::hangup(),
            Received::Resized => SignalKind::window_change(),
        }
    }

    /// What a shell reports for it, where there is no command yet to pass it on to.
    pub(super) fn exit_code(self) -> u8 {
        super::exit::code(128 + self.kind().as_raw_value())
    }
}

/// The signals that are listened to.
pub(super) struct Signals {
    streams: Vec<(Received, unix::Signal)>,
}

impl Signals {
    /// Starts listening. A signal that whoever started this program has set to be ignored (`nohup`, a background job of
    /// a script) stays ignored.
    pub(super) fn listen() -> io::Result<Self> {
        let ignored = ignored();
        let mut streams = Vec::new();
        for signal in Received::ALL {
            if ignored & (1 << (signal.kind().as_raw_value() - 1)) == 0 {
                streams.push((signal, unix::signal(signal.kind())?));
            }
        }
        Ok(Self { streams })
    }

    /// The next signal that asks for an end. Cancel safe.
    pub(super) async fn end(&mut self) -> Received {
        loop {
            match self.recv().await {
                Received::Resized => {}
                other => return other,
            }
        }
    }

    /// The next signal. Cancel safe.
    async fn recv(&mut self) -> Received {
        std::future::poll_fn(|cx| {
            for (signal, stream) in &mut self.streams {
                if stream.poll_recv(cx).is_ready() {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Passes signals on until the user has had enough: the first interrupt is one, the second ends the command with
    /// all that it started, as a request to terminate does at once; one more returns.
    ///
    /// `tty`: the command has a terminal, which follows the size of this one.
    pub(super) async fn forward(&mut self, process: &Arc<dyn ExecProcess>, tty: bool) {
        let mut step = 0;
        loop {
            step = match self.recv().await {
                Received::Interrupt => step + 1,
                Received::Terminate | Received::Hangup => 2.max(step + 1),
                Received::Quit => {
                    send(process, Signal::Quit);
                    continue;
                }
                Received::Resized => {
                    if tty {
                        resize(process, super::terminal::size());
                    }
                    continue;
                }
            };
            match step {
                1 => send(process, Signal::Interrupt),
                2 => terminate(process),
                _ => return,
            }
        }
    }
}

/// Ends the command and its descendants; returns before it is done.
pub(super) fn terminate(process: &Arc<dyn ExecProcess>) {
    let process = Arc::clone(process);
    in_background(async move { process.terminate().await.map(drop) });
}

fn resize(process: &Arc<dyn ExecProcess>, size: Size) {
    let process = Arc::clone(process);
    in_background(async move { process.resize(size).await });
}

fn send(process: &Arc<dyn ExecProcess>, signal: Signal) {
    let process = Arc::clone(process);
    in_background(async move { process.signal(signal).await });
}

fn in_background(request: impl Future<Output = Result<(), Error>> + Send + 'static) {
    tokio::spawn(async move {
        if let Err(e) = request.await {
            tracing::warn!("cannot pass the signal on: {e}");
        }
    });
}

/// The mask of the signals that this process ignores; nothing where the system does not tell.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}
