//! `agent-client kill`: ends, or signals, a process that `ps` lists.

use std::time::Duration;

use agent_client::protocol::Method;
use agent_client::protocol::process::{
    ProcessSummary, Signal, SignalParams, TerminateParams, TerminateResult,
};
use agent_client::{Client, Error};
use serde::de::IgnoredAny;

use super::connection::Connection;
use super::{ps, report, session};

/// End processes that `agent-client ps` lists, each with all that it started.
///
/// SIGTERM first; SIGKILL after the grace to what is left. With --signal, the process group gets that signal and nothing
/// follows. The exit code is 1 where one of the processes is not there.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agent-client kill 4711\n  agent-client kill -s interrupt 4711")]
pub(super) struct Args {
    /// The processes, by their PID in `ps`
    #[arg(required = true, value_name = "PID")]
    pids: Vec<i32>,
    /// Send this signal instead
    #[arg(short, long, value_name = "SIGNAL", value_enum)]
    signal: Option<Name>,
    /// Between SIGTERM and SIGKILL [default: the server's]
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration, conflicts_with = "signal")]
    grace: Option<Duration>,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Name {
    Interrupt,
    Terminate,
    Kill,
    Hangup,
    Quit,
    User1,
    User2,
    Stop,
    Continue,
}

impl From<Name> for Signal {
    fn from(name: Name) -> Self {
        match name {
            Name::Interrupt => Signal::Interrupt,
            Name::Terminate => Signal::Terminate,
            Name::Kill => Signal::Kill,
            Name::Hangup => Signal::Hangup,
            Name::Quit => Signal::Quit,
            Name::User1 => Signal::User1,
            Name::User2 => Signal::User2,
            Name::Stop => Signal::Stop,
            Name::Continue => Signal::Continue,
        }
    }
}

pub(super) async fn run(args: Args) -> anyhow::Result<u8> {
    let Args { pids, signal, grace, connection } = args;
    let config = connection.config()?;
    session::with(&config, async |environment| {
        let processes = ps::processes(environment).await?;
        let mut code = 0;
        for pid in &pids {
            match processes.iter().find(|process| process.pid == Some(*pid)) {
                Some(process) => end(environment.client(), process, signal, grace).await?,
                None => {
                    report::say(&format!("no process {pid}; `agent-client ps` lists those that there are"));
                    code = super::exit::PARTIAL;
                }
            }
        }
        Ok(code)
    })
    .await
}

async fn end(
    client: &Client,
    process: &ProcessSummary,
    signal: Option<Name>,
    grace: Option<Duration>,
) -> Result<(), Error> {
    let (process_id, pid) = (process.process_id.clone(), process.pid);
    if let Some(signal) = signal {
        let params = SignalParams { process_id, pid, signal: signal.into() };
        return client.request::<_, IgnoredAny>(Method::ProcessSignal, &params).await.map(drop);
    }
    let params = TerminateParams {
        process_id,
        pid,
        grace_ms: grace.map(|grace| u64::try_from(grace.as_millis()).unwrap_or(u64::MAX)),
        descendants: true,
    };
    client.request::<_, TerminateResult>(Method::ProcessTerminate, &params).await.map(drop)
}
