//! `run`: one command under the sandbox, without a listener. The way to try a policy.
//!
//! It is a client of a server in the same process, so that what it shows is what a client gets.

mod terminal;

use std::io::{IsTerminal as _, Read as _, Write as _};

use anyhow::{Context as _, anyhow, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use rustix::fs::FileType;
use sandbox_sidecar::Server;
use sandbox_sidecar::config::Config;
use serde_json::{Value, json};
use sidecar_protocol::{ErrorKind, RpcError};
use tokio::io::DuplexStream;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use self::terminal::Terminal;

/// The command cannot be executed.
const NOT_EXECUTABLE: u8 = 126;
/// There is no such command.
const NOT_FOUND: u8 = 127;
/// Anything of ours.
pub(crate) const FAILED: u8 = 125;
/// Whoever read the output is gone: 128 + SIGPIPE.
const NOBODY_READS: u8 = 141;

const PROCESS: &str = "run";
const INITIALIZE: u64 = 1;
const START: u64 = 2;
const WRITE: u64 = 3;
const OTHER: u64 = 4;

/// Bytes of stdin that are passed on at once.
const CHUNK: usize = 64 << 10;

/// What to run.
pub(crate) struct Run {
    pub(crate) argv: Vec<String>,
    pub(crate) tty: bool,
    /// Show the receipt on stderr.
    pub(crate) verbose: bool,
}

/// Gives the command's exit code, or one of ours for one that did not come up.
pub(crate) async fn run(config: Config, what: Run) -> anyhow::Result<u8> {
    let mut signals = Signals::new().context("signals")?;
    let mut resized = signal(SignalKind::window_change()).context("signals")?;
    let server = Server::start(config).await?;
    let io = server.connect_in_process();
    let (to_server, from_server) = WebSocketStream::from_raw_socket(io, Role::Client, None).await.split();
    let terminal = what.tty.then(Terminal::raw).flatten();
    let mut client = Client { to_server, from_server, verbose: what.verbose, exit: None, writing: false };
    client.start(&what).await?;
    let mut input = stdin();
    let code = loop {
        tokio::select! {
            message = client.from_server.next() => {
                let message = message.ok_or_else(|| anyhow!("the server is gone"))??;
                if let Some(code) = client.take(&message)? {
                    break code;
                }
            }
            chunk = input.recv(), if !client.writing => client.pass_on(chunk).await?,
            name = signals.next() => client.signal(name).await?,
            _ = resized.recv(), if what.tty => client.resize().await?,
        }
    };
    drop((terminal, client));
    // What the command left in the background has no session to live in any more.
    server.kill().await;
    Ok(code)
}

/// Whether stdin is anything but `/dev/null` and its like. A pipe in its stead would be taken for input: by `rg`, which
/// then searches that and not the directory.
fn has_input() -> bool {
    let stdin = std::io::stdin();
    let kind = rustix::fs::fstat(&stdin).map(|stat| FileType::from_raw_mode(stat.st_mode));
    stdin.is_terminal() || kind.is_ok_and(|kind| kind != FileType::CharacterDevice)
}

/// Reads on a thread of its own, which ends with the process: a terminal's read cannot be called off.
fn stdin() -> mpsc::Receiver<Vec<u8>> {
    let (chunks, input) = mpsc::channel(1);
    std::thread::spawn(move || {
        let mut stdin = std::io::stdin().lock();
        let mut chunk = vec![0; CHUNK];
        while let Ok(len @ 1..) = stdin.read(&mut chunk) {
            if chunks.blocking_send(chunk[..len].to_vec()).is_err() {
                return;
            }
        }
    });
    input
}

struct Client {
    to_server: SplitSink<WebSocketStream<DuplexStream>, Message>,
    from_server: SplitStream<WebSocketStream<DuplexStream>>,
    verbose: bool,
    exit: Option<u8>,
    /// Whether input is on its way; more of it waits. Stays so after the end of input.
    writing: bool,
}

impl Client {
    async fn start(&mut self, what: &Run) -> anyhow::Result<()> {
        let cwd = std::env::current_dir().context("the current directory")?;
        let mut params = json!({
            "processId": PROCESS, "argv": what.argv, "cwd": cwd, "env": {}, "envPolicy": { "inherit": "all" },
            "tty": what.tty, "pipeStdin": !what.tty && has_input(),
        });
        if let Some(size) = terminal::size() {
            params["size"] = size;
        }
        self.request(INITIALIZE, "initialize", json!({ "clientName": "sandbox-sidecar run" })).await?;
        self.send(json!({ "method": "initialized" })).await?;
        self.request(START, "process/start", params).await
    }

    async fn pass_on(&mut self, chunk: Option<Vec<u8>>) -> anyhow::Result<()> {
        self.writing = true;
        match chunk {
            Some(chunk) => {
                let params = json!({ "processId": PROCESS, "chunk": STANDARD.encode(chunk) });
                self.request(WRITE, "process/write", params).await
            }
            None => self.request(OTHER, "process/closeStdin", json!({ "processId": PROCESS })).await,
        }
    }

    async fn signal(&mut self, name: &str) -> anyhow::Result<()> {
        self.request(OTHER, "process/signal", json!({ "processId": PROCESS, "signal": name })).await
    }

    async fn resize(&mut self) -> anyhow::Result<()> {
        let Some(mut params) = terminal::size() else { return Ok(()) };
        params["processId"] = json!(PROCESS);
        self.request(OTHER, "process/resize", params).await
    }

    async fn request(&mut self, id: u64, method: &str, params: Value) -> anyhow::Result<()> {
        self.send(json!({ "id": id, "method": method, "params": params })).await
    }

    async fn send(&mut self, message: Value) -> anyhow::Result<()> {
        Ok(self.to_server.send(Message::text(message.to_string())).await?)
    }

    /// Gives the code to exit with, once there is nothing more to come.
    fn take(&mut self, message: &Message) -> anyhow::Result<Option<u8>> {
        let text = match message {
            Message::Text(text) => text,
            Message::Close(_) => bail!("the server closed the connection"),
            _ => return Ok(None),
        };
        let message: Value = serde_json::from_str(text)?;
        let params = &message["params"];
        match (message["id"].as_u64(), message["method"].as_str()) {
            (Some(INITIALIZE), _) if message["error"].is_object() => bail!("{}", message["error"]["message"]),
            (Some(START), _) => return self.started(&message),
            // Input that came too late for the command is nobody's any more.
            (Some(WRITE), _) => self.writing = message["result"]["accepted"] != true,
            (_, Some("process/output")) => return write_out(params),
            (_, Some("process/exited")) => {
                let code = params["exitCode"].as_u64().and_then(|code| u8::try_from(code).ok());
                self.exit = Some(code.unwrap_or(FAILED));
                if self.verbose || params["sandboxDenied"] == true {
                    self.tell_exit(params);
                }
            }
            (_, Some("process/closed")) => return Ok(Some(self.exit.unwrap_or(FAILED))),
            _ => {}
        }
        Ok(None)
    }

    fn started(&self, message: &Value) -> anyhow::Result<Option<u8>> {
        if let Some(error) = message.get("error") {
            let error: RpcError = serde_json::from_value(error.clone())?;
            complain(&error.message);
            return Ok(Some(match error.typed_data().and_then(|data| data.kind) {
                Some(ErrorKind::SpawnNotFound) => NOT_FOUND,
                Some(ErrorKind::PermissionDenied | ErrorKind::NotExecutable) => NOT_EXECUTABLE,
                _ => FAILED,
            }));
        }
        if self.verbose {
            complain(&format!("enforced: {:#}", message["result"]["enforcement"]));
        }
        Ok(None)
    }

    fn tell_exit(&self, params: &Value) {
        let hint = params["hint"].as_str().map(|hint| format!("; hint: {hint}"));
        let denied =
            if params["sandboxDenied"] == true { "; the sandbox may have been in the way" } else { "" };
        let cause = params["cause"].as_str().unwrap_or_default();
        complain(&format!("cause {cause}{denied}{}", hint.unwrap_or_default()));
    }
}

fn write_out(params: &Value) -> anyhow::Result<Option<u8>> {
    let bytes = STANDARD.decode(params["chunk"].as_str().unwrap_or_default())?;
    let written = if params["stream"] == "stderr" {
        std::io::stderr().write_all(&bytes)
    } else {
        let mut stdout = std::io::stdout();
        stdout.write_all(&bytes).and_then(|()| stdout.flush())
    };
    match written {
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(Some(NOBODY_READS)),
        written => written.map(|()| None).context("output"),
    }
}

fn complain(text: &str) {
    // A terminal in raw mode does not return the carriage by itself.
    let end = if std::io::stderr().is_terminal() { "\r\n" } else { "\n" };
    // Where stderr is gone there is nobody to tell.
    let _ = write!(std::io::stderr(), "sandbox-sidecar: {text}{end}");
}

/// What is passed on to the command.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    quit: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Signals> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            quit: signal(SignalKind::quit())?,
        })
    }

    /// The name of the next one on the wire. Cancel safe.
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "interrupt",
            _ = self.terminate.recv() => "terminate",
            _ = self.hangup.recv() => "hangup",
            _ = self.quit.recv() => "quit",
        }
    }
}
