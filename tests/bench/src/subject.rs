//! The servers that are measured: ours, the stock one, and a gateway in between.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context as _, ensure};
use e2e::{Gateway, Scratch, Server};
use serde_json::{Value, json};

use crate::wire::{Acks, Client};

const STOCK_CLI: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../e2e/stock_cli.py");

/// A running server.
pub(crate) trait Subject {
    /// `ws://127.0.0.1:PORT`
    fn url(&self) -> &str;
    fn token(&self) -> Option<&str>;

    fn client(&self, acks: Acks) -> anyhow::Result<Client> {
        Client::open(self.url(), self.token(), acks)
    }
}

impl Subject for Server {
    fn url(&self) -> &str {
        self.url()
    }

    fn token(&self) -> Option<&str> {
        self.token()
    }
}

/// Ours, once it has proved that its sandbox holds. Room for the rows with many connections; all else by default.
pub(crate) fn ours() -> anyhow::Result<Server> {
    let scratch = Scratch::new();
    let config = scratch.state().join("config.toml");
    fs::write(&config, "[limits]\nconnections = 600\nsessions = 700\n")?;
    let server = Server::builder().scratch(scratch).arg("--config").arg(config).start();
    server.wait_for_log("ready");
    Ok(server)
}

/// The stock server, unmodified; ended on drop.
#[derive(Debug)]
pub(crate) struct Stock {
    child: Child,
    /// Held open: a server that cannot write there would fail.
    _stdout: BufReader<ChildStdout>,
    url: String,
}

impl Stock {
    /// With its home in `scratch`.
    pub(crate) fn start(scratch: &Scratch) -> anyhow::Result<Self> {
        let mut child = Command::new(stock_program()?)
            .args(["exec-server", "--listen", "ws://127.0.0.1:0"])
            .env("CODEX_HOME", scratch.home())
            .current_dir(scratch.workspace())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut stdout = BufReader::new(child.stdout.take().context("its stdout")?);
        let mut url = String::new();
        stdout.read_line(&mut url)?;
        let stock = Self { child, _stdout: stdout, url: url.trim_end().to_owned() };
        ensure!(stock.url.starts_with("ws://"), "the stock server said {:?}", stock.url);
        Ok(stock)
    }

    /// Of the server itself.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Stock {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Subject for Stock {
    fn url(&self) -> &str {
        &self.url
    }

    fn token(&self) -> Option<&str> {
        None
    }
}

/// The program itself, which npm's script would start: its pid is what is measured.
fn stock_program() -> anyhow::Result<PathBuf> {
    let output = Command::new("python3").args([STOCK_CLI, "--install"]).output().context("python3")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
    let script = PathBuf::from(String::from_utf8(output.stdout)?.trim());
    let modules = script.ancestors().nth(2).context("the folder of the packages")?;
    let programs = entries(&modules.join("@openai"))?
        .into_iter()
        .flat_map(|package| entries(&package.join("vendor")).unwrap_or_default())
        .map(|platform| platform.join("bin/codex"));
    programs.into_iter().find(|program| program.is_file()).context("the package holds no program")
}

fn entries(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect()
}

/// A gateway to our server.
#[derive(Debug)]
pub(crate) struct Between(Gateway);

impl Between {
    pub(crate) fn start(server: &Server) -> Self {
        Self(Gateway::start(server.url(), server.scratch(), &server.workspace(), &[]))
    }
}

impl Subject for Between {
    fn url(&self) -> &str {
        self.0.url()
    }

    fn token(&self) -> Option<&str> {
        Some(e2e::gateway::TOKEN)
    }
}

/// How a launch of the stock client asks for its sandbox: it writes to its workspace and to /tmp, without network.
pub(crate) fn sandboxed(workspace: &Path) -> Value {
    let root = uri(workspace);
    let special = |kind: &str, access: &str| json!({"path": {"type": "special", "value": {"kind": kind}}, "access": access});
    let entries = [special("root", "read"), special("project_roots", "write"), special("slash_tmp", "write")];
    json!({
        "permissions": {
            "type": "managed",
            "file_system": {"type": "restricted", "entries": entries},
            "network": "restricted",
        },
        "cwd": root,
        "workspaceRoots": [root],
        "windowsSandboxLevel": "disabled",
        "windowsSandboxProxySettingsMode": "reconcile",
        "useLegacyLandlock": false,
    })
}

/// A path as the stock client writes it.
pub(crate) fn uri(path: &Path) -> String {
    format!("file://{}", path.display())
}
