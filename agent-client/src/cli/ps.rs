//! `agent-client ps`: what runs for whoever holds this token.

use agent_client::protocol::Method;
use agent_client::protocol::process::{ListParams, ListResult, ProcessState, ProcessSummary};
use agent_client::{Client, Environment, Error};
use anyhow::bail;

use super::connection::Connection;
use super::session;
use super::table::{self, Table, harmless};

/// List the processes of all sessions that this token, or this user, has opened.
///
/// Each agent-client, gateway or codex has a session of its own. Exited processes are listed for as long as the server
/// keeps them.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  agent-client ps\n  agent-client kill \"$(agent-client ps --json | jq '.[0].pid')\""
)]
pub(super) struct Args {
    /// Print them as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: Args) -> anyhow::Result<u8> {
    let config = args.connection.config()?;
    session::with(&config, async |environment| {
        let processes = processes(environment).await?;
        if args.json {
            table::json(&processes)?;
            return Ok(0);
        }
        let mut table = Table::new(&["PID", "STATE", "TTY", "STARTED", "COMMAND"]);
        for process in &processes {
            table.row(vec![
                process.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string()),
                state(process),
                if process.tty { "yes" } else { "no" }.to_owned(),
                table::time(i64::try_from(process.started_at_ms).unwrap_or(0)),
                harmless(&process.argv.join(" ")),
            ]);
        }
        table.print()?;
        Ok(0)
    })
    .await
}

/// Those of every session of this caller.
pub(super) async fn processes(environment: &Environment) -> anyhow::Result<Vec<ProcessSummary>> {
    if environment.is_embedded() {
        bail!("an embedded sidecar serves this command alone, so nothing runs there; set sidecar_url");
    }
    Ok(list(environment.client()).await?)
}

async fn list(client: &Client) -> Result<Vec<ProcessSummary>, Error> {
    let list: ListResult = client.request(Method::ProcessList, &ListParams { all: true }).await?;
    Ok(list.processes)
}

fn state(process: &ProcessSummary) -> String {
    let state = match process.state {
        ProcessState::Starting => "starting",
        ProcessState::Running => "running",
        ProcessState::Exited | ProcessState::Closed => "exited",
    };
    match process.exit_code {
        Some(code) if process.background => format!("{state} {code}, background"),
        Some(code) => format!("{state} {code}"),
        None => state.to_owned(),
    }
}
