//! Commands in windows, as tools for a model: run a command and return what it wrote so far; later write to it, or look
//! again. The windows are the client's doing; the server knows nothing of them.
//!
//! | module | what it owns |
//! |---|---|
//! | [`head_tail`] | output of bounded size: its head, its tail, and a count of what is between |
//! | [`session`] | one command that runs on between windows |
//! | [`store`] | all of them, of bounded number |
//!
//! A command whose connection is lost has a [`Window::failure`] and no exit code: it is never taken for a success.

pub mod head_tail;
mod session;
mod store;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use sidecar_protocol::process::{Sandbox, Size};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

pub use head_tail::HeadTail;

use crate::backend::{ExecBackend, Launch, Started};
use crate::error::Error;
use session::{Ended, Session};
use store::Store;

/// Shortest and longest window of a command or a write.
pub const YIELD: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(30));
/// Window of a command that names none.
pub const DEFAULT_YIELD: Duration = Duration::from_secs(10);
/// Shortest window of a write of nothing: it is a look, and a model that looks too often learns nothing.
pub const MIN_POLL: Duration = Duration::from_secs(5);
/// Longest window of a write of nothing by default.
pub const MAX_POLL: Duration = Duration::from_secs(300);
/// Tokens of output that a window returns by default.
pub const DEFAULT_OUTPUT_TOKENS: usize = 10_000;
/// Bytes that count as a token: an estimate that needs no vocabulary.
pub const BYTES_PER_TOKEN: usize = 4;

/// A command to be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecCommand {
    /// What.
    pub command: Command,
    /// Where, an absolute local path; the root without it.
    pub workdir: Option<PathBuf>,
    /// In a terminal, to which [`Tools::write_stdin`] can write. Without it stdin is closed.
    pub tty: bool,
    /// How long to collect output, within [`YIELD`].
    pub yield_time: Option<Duration>,
    /// How much of it to return.
    pub max_output_tokens: Option<usize>,
    /// When the server is to end the command.
    pub timeout: Option<Duration>,
    /// Variables beside the server's core ones.
    pub env: BTreeMap<String, String>,
    /// The sandbox to ask for, as [`Launch::sandbox`].
    pub sandbox: Option<Sandbox>,
    /// Notes for the server's audit trail.
    pub metadata: Option<Value>,
}

/// Hears what a command writes while its window is open. What does not fit the channel is not heard, and is in the window
/// all the same.
pub type Tap = mpsc::Sender<Vec<u8>>;

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// A line for the server's shell. It reads no profile first.
    Shell(String),
    /// A program and its arguments.
    Argv(Vec<String>),
}

impl ExecCommand {
    /// With pipes and the defaults.
    pub fn new(command: Command) -> Self {
        Self {
            command,
            workdir: None,
            tty: false,
            yield_time: None,
            max_output_tokens: None,
            timeout: None,
            env: BTreeMap::new(),
            sandbox: None,
            metadata: None,
        }
    }
}

/// Something to be typed into a command's terminal; nothing, to look at it again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WriteStdin {
    /// Which command, by [`Window::session_id`].
    pub session_id: u64,
    /// What to write.
    pub chars: String,
    /// How long to collect output.
    pub yield_time: Option<Duration>,
    /// How much of it to return.
    pub max_output_tokens: Option<usize>,
}

/// What a command did within a window. It has an exit code, or a session to look at later, or a failure.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Window {
    /// Names this answer.
    pub chunk_id: String,
    /// How long the window was open.
    pub wall_time_seconds: f64,
    /// The command's, once it has ended; 128+n by signal n.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// By which to write to it, or look at it again, while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<u64>,
    /// Why it is not known how the command ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// What is to be known of its end beside the code: whether the server ended it, or the sandbox was in the way.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// About how many tokens all of the window's output has.
    pub original_token_count: u64,
    /// The output: all of it, or its head and its tail around a line that counts what is left out.
    pub output: String,
}

/// The tools. Dropped, they leave their commands to the connection's end.
pub struct Tools {
    backend: Arc<dyn ExecBackend>,
    shell: String,
    root: PathBuf,
    max_poll: Duration,
    store: Store,
}

impl Tools {
    /// Tools over `backend`, with `shell` as the shell there, and `root` as the local directory to start from.
    pub fn new(backend: Arc<dyn ExecBackend>, shell: impl Into<String>, root: impl Into<PathBuf>) -> Self {
        Self { backend, shell: shell.into(), root: root.into(), max_poll: MAX_POLL, store: Store::default() }
    }

    /// Another longest window for a write of nothing.
    #[must_use]
    pub fn with_max_poll(mut self, max_poll: Duration) -> Self {
        self.max_poll = max_poll.max(MIN_POLL);
        self
    }

    /// How many commands are known: those that run, and those whose end nobody has seen.
    pub fn sessions(&self) -> usize {
        self.store.len()
    }

    /// Runs a command and collects its output until it has ended or the window closes. Dropped before it returns, it ends
    /// the command: nobody could look at it again.
    ///
    /// # Errors
    /// It cannot be started; see [`ExecBackend::start`].
    pub async fn exec_command(&self, command: ExecCommand, tap: Option<Tap>) -> Result<Window, Error> {
        let opened = Instant::now();
        let argv = match command.command {
            Command::Shell(line) => vec![self.shell.clone(), "-c".to_owned(), line],
            Command::Argv(argv) => argv,
        };
        let launch = Launch {
            env: command.env,
            tty: command.tty.then(Size::default),
            sandbox: command.sandbox,
            metadata: command.metadata,
            timeout: command.timeout,
            ..Launch::new(argv, command.workdir.unwrap_or_else(|| self.root.clone()))
        };
        // Before, so that there are never more: each is a process on the server.
        self.store.make_room();
        let session = Session::follow(self.start(launch).await?, command.tty, tap);
        let mut started =
            Unseen { store: &self.store, id: self.store.insert(session.clone()), session: Some(&session) };
        let window = command.yield_time.unwrap_or(DEFAULT_YIELD).clamp(YIELD.0, YIELD.1);
        let ended = session.wait(opened + window).await;
        started.session = None;
        Ok(self.window(started.id, &session, ended, opened, command.max_output_tokens))
    }

    /// Starts it. Where nobody waits for that any more, the command is ended as soon as it has started.
    async fn start(&self, launch: Launch) -> Result<Started, Error> {
        let (sender, started) = oneshot::channel();
        let backend = Arc::clone(&self.backend);
        tokio::spawn(async move {
            if let Err(Ok(unwanted)) = sender.send(backend.start(launch).await)
                && let Err(error) = unwanted.process.terminate().await
            {
                tracing::warn!("a command that nobody waits for cannot be ended: {error}");
            }
        });
        // The sender is dropped unused only where the runtime ends.
        started.await.unwrap_or(Err(Error::ConnectionLost { reason: "the client ends".into() }))
    }

    /// Writes to a command's terminal and collects another window; with nothing to write, just looks.
    ///
    /// # Errors
    /// [`Error::UnknownSession`], [`Error::StdinClosed`] for a command without a terminal, those of
    /// [`crate::ExecProcess::write`].
    pub async fn write_stdin(&self, write: WriteStdin, tap: Option<Tap>) -> Result<Window, Error> {
        let opened = Instant::now();
        let id = write.session_id;
        let session = self.store.find(id).ok_or(Error::UnknownSession { session_id: id })?;
        session.tap(tap);
        let window = if write.chars.is_empty() {
            write.yield_time.unwrap_or(MIN_POLL).clamp(MIN_POLL, self.max_poll)
        } else {
            write.yield_time.unwrap_or(YIELD.0).clamp(YIELD.0, YIELD.1)
        };
        if !write.chars.is_empty() {
            session.write(write.chars, opened + window).await?;
        }
        let ended = session.wait(opened + window).await;
        Ok(self.window(id, &session, ended, opened, write.max_output_tokens))
    }

    fn window(
        &self,
        id: u64,
        session: &Session,
        ended: Option<Ended>,
        opened: Instant,
        max_output_tokens: Option<usize>,
    ) -> Window {
        session.tap(None);
        let output = session.take_output(ended.is_some());
        let (exit_code, failure, session_id) = match ended {
            None => (None, None, Some(id)),
            Some(ended) => {
                self.store.remove(id);
                match ended {
                    Ended::Exited(code) => (Some(code), None, None),
                    Ended::Failed(reason) => (None, Some(reason), None),
                }
            }
        };
        let limit = max_output_tokens.unwrap_or(DEFAULT_OUTPUT_TOKENS).saturating_mul(BYTES_PER_TOKEN);
        Window {
            chunk_id: chunk_id(),
            wall_time_seconds: opened.elapsed().as_secs_f64(),
            exit_code,
            session_id,
            failure,
            notes: session.notes(),
            original_token_count: output.total_bytes().div_ceil(BYTES_PER_TOKEN as u64),
            output: output.shortened(limit).to_text(),
        }
    }
}

/// A command whose id nobody has been told; dropped as such, it ends.
struct Unseen<'a> {
    store: &'a Store,
    id: u64,
    /// `None` once it is known.
    session: Option<&'a Session>,
}

impl Drop for Unseen<'_> {
    fn drop(&mut self) {
        if let Some(session) = self.session {
            self.store.remove(self.id);
            session.terminate();
        }
    }
}

/// Unlike any other of this process.
fn chunk_id() -> String {
    static GIVEN: AtomicU64 = AtomicU64::new(0);
    format!("{:06x}", GIVEN.fetch_add(1, Ordering::Relaxed))
}
