//! A small agent: asks a model for a command, runs it in a sandbox, shows it what came of it, and lets it change a file.
//!
//! Put your model into `ask`. Without a URL in the environment (`AGENT_CLIENT_SIDECAR_URL`) the sandbox is embedded, and
//! its workspace is the current directory.

use agent_client::patch::{self, commit::commit};
use agent_client::tools::{Command, ExecCommand, Tools, Window};
use agent_client::{Config, Environment};

/// Your model: what to run next, or nothing. This one has made up its mind already.
fn ask(transcript: &[Window]) -> Option<&'static str> {
    ["uname -s; echo note > note.txt", "cat note.txt; exit 3"].get(transcript.len()).copied()
}

async fn run(tools: &Tools, line: &str) -> Result<Window, agent_client::Error> {
    let window = tools.exec_command(ExecCommand::new(Command::Shell(line.to_owned())), None).await?;
    println!(
        "$ {line}\n{}[exit code {}]",
        window.output,
        window.exit_code.map_or("none yet".to_owned(), |c| c.to_string())
    );
    Ok(window)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let config = Config::load(None, Default::default())?;
    let environment = Environment::connect(&config).await?;
    let tools = Tools::new(environment.backend(), environment.shell(), &config.local_root);
    let mut transcript = Vec::new();
    while let Some(line) = ask(&transcript) {
        transcript.push(run(&tools, line).await?);
    }
    let text = "*** Begin Patch\n*** Update File: note.txt\n@@\n-note\n+changed\n*** End Patch";
    let at = |path: &std::path::Path| Ok(config.local_root.join(path));
    let applied = commit(&patch::parse(text)?, &environment.files(), at).await?;
    applied.modified.iter().for_each(|path| println!("M {}", path.display()));
    run(&tools, "cat note.txt").await?;
    drop(tools);
    environment.close().await;
    Ok(())
}
