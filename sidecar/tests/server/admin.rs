//! The admin port: who is answered what, and what a scrape looks like.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sandbox_sidecar::config::{AuditSink, Config, MetricsDetail};
use sandbox_sidecar::{Server, StartError, State};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::common::{Fixture, scratch};

/// The samples of one scrape: the name with its labels, as they are written, and the value.
#[derive(Debug)]
pub(crate) struct Scrape(BTreeMap<String, f64>);

impl Scrape {
    pub(crate) async fn of(server: &Server) -> Scrape {
        Scrape::at(server.admin_addr().expect("an admin port")).await
    }

    pub(crate) async fn at(admin: SocketAddr) -> Scrape {
        let answer = http(admin, "GET /metrics").await;
        let (head, body) = answer.split_once("\r\n\r\n").expect("a body");
        assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("text/plain; version=0.0.4"), "{head}");
        let samples = body.lines().filter(|line| !line.starts_with('#')).map(|line| {
            let (name, value) = line.rsplit_once(' ').expect("a sample");
            (name.to_owned(), value.parse().expect("a number"))
        });
        Scrape(samples.collect())
    }

    /// The value of one series; panics where there is none.
    pub(crate) fn get(&self, series: &str) -> f64 {
        *self.0.get(series).unwrap_or_else(|| panic!("no {series} in {:#?}", self.0.keys()))
    }

    /// The same of one that appears with its first event.
    pub(crate) fn count(&self, series: &str) -> f64 {
        self.0.get(series).copied().unwrap_or_default()
    }

    /// The names of the families.
    pub(crate) fn families(&self) -> BTreeSet<String> {
        let family = |series: &String| {
            let name = series.split('{').next().unwrap_or_default();
            let ends = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
            ends.unwrap_or(name).to_owned()
        };
        self.0.keys().map(family).collect()
    }

    pub(crate) fn series(&self) -> usize {
        self.0.len()
    }
}

pub(crate) fn with_admin(config: &mut Config) {
    config.admin_listen = Some("127.0.0.1:0".parse().expect("an address"));
}

async fn http(addr: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(addr).await.expect("connected");
    let text = format!("{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(text.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    answer
}

#[tokio::test]
async fn health_and_metrics_and_nothing_else() {
    let fixture = Fixture::with(with_admin).await;
    let addr = fixture.server.admin_addr().expect("an admin port");
    let status = async |request| http(addr, request).await[9..12].to_owned();
    assert_eq!(status("GET /livez").await, "200");
    assert_eq!(status("GET /readyz").await, "503");
    fixture.server.set_state(State::Ready);
    assert!(http(addr, "GET /readyz").await.ends_with("\r\n\r\nok\n"));
    assert_eq!(status("HEAD /healthz").await, "200");
    assert_eq!(status("GET /").await, "404");
    assert_eq!(status("POST /metrics").await, "405");
    // Not a way around the token.
    assert_eq!(status("GET /?x HTTP/1.1\r\nUpgrade: websocket\r\nConnection: upgrade\r\nx: ").await, "404");
    fixture.server.shutdown().await;
}

#[tokio::test]
async fn it_is_ready_while_a_launch_could_start() {
    let fixture = Fixture::with(with_admin).await;
    fixture.server.set_state(State::Ready);
    let addr = fixture.server.admin_addr().expect("an admin port");
    let ready = async || http(addr, "GET /readyz").await;
    assert!(ready().await.ends_with("ok\n"));
    let (workspace, elsewhere) = (fixture.ws(""), fixture.outside("ws"));
    std::fs::rename(&workspace, &elsewhere).expect("moved away");
    let answer = ready().await;
    assert!(answer.contains(" 503 ") && answer.ends_with("launches are blocked\n"), "{answer}");
    assert!(http(addr, "GET /livez").await.ends_with("ok\n"));
    std::fs::rename(&elsewhere, &workspace).expect("moved back");
    assert!(ready().await.ends_with("ok\n"));
}

#[tokio::test]
async fn a_taken_admin_address_is_named() {
    let fixture = Fixture::with(with_admin).await;
    let taken = fixture.server.admin_addr().expect("an admin port");
    let workspace = scratch();
    let mut config = Config::embedded(workspace.path().to_owned()).expect("valid");
    assert_eq!((config.admin_listen, &config.audit.sink), (None, &AuditSink::None), "embedded has neither");
    config.admin_listen = Some(taken);
    match Server::start(config).await {
        Err(error @ StartError::Admin { .. }) => assert!(error.to_string().contains(&taken.to_string())),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn every_metric_is_in_the_docs_and_the_other_way_round() {
    let fixture = Fixture::with(with_admin).await;
    let scrape = Scrape::of(&fixture.server).await;
    let docs = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/metrics.md"));
    let docs = docs.expect("docs/metrics.md");
    let documented: BTreeSet<String> = docs
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`').map(|(name, _)| name.to_owned()))
        .collect();
    assert_eq!(scrape.families(), documented);
    assert!(scrape.series() <= 300, "{} series", scrape.series());
    assert_eq!(
        scrape.get("sidecar_launches_total{outcome=\"started\",profile=\"readOnly\",tty=\"true\"}"),
        0.0
    );
    assert!(scrape.get("sidecar_workspace_free_bytes") > 0.0);
    assert!(scrape.get("sidecar_workspace_size_bytes") >= scrape.get("sidecar_workspace_free_bytes"));
    let of_every_process =
        ["resident_memory_bytes", "virtual_memory_bytes", "threads", "open_fds", "max_fds"];
    for name in of_every_process {
        assert!(scrape.get(&format!("process_{name}")) > 0.0, "{name}");
    }
    assert!(scrape.get("process_start_time_seconds") > 1.7e9);
    assert!(scrape.get("sidecar_enforcement_part{part=\"seccomp\",state=\"full\"}") > 0.0);
}

#[tokio::test]
async fn basic_detail_has_no_histogram_per_file_operation() {
    let fixture = Fixture::with(|config| {
        with_admin(config);
        config.metrics = MetricsDetail::Basic;
    })
    .await;
    let families = Scrape::of(&fixture.server).await.families();
    assert!(!families.contains("sidecar_fs_operation_duration_seconds"));
    assert!(families.contains("sidecar_fs_errors_total") || families.contains("sidecar_requests_total"));
}

#[test]
fn the_binary_names_a_taken_admin_address_and_exits_69() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let addr = taken.local_addr().expect("an address").to_string();
    let output = serve(&scratch(), &addr).output().expect("it ran");
    assert_eq!(output.status.code(), Some(69));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains(&addr) && message.contains("adminListen"), "{message}");
}

#[test]
fn sighup_reloads_and_the_trail_goes_to_stderr_among_the_logs() {
    let workspace = scratch();
    let mut child = serve(&workspace, "127.0.0.1:0").stderr(Stdio::piped()).spawn().expect("it starts");
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a pid"));
    let mut stderr = BufReader::new(child.stderr.take().expect("stderr")).lines().map_while(Result::ok);
    // Each line is JSON; the end of the stream, where it does not come, ends the search.
    let mut until = |wanted: &str| {
        let found = stderr.find(|line| {
            let line: Value = serde_json::from_str(line).expect(line);
            line["event"] == wanted || line["message"] == wanted
        });
        assert!(found.is_some(), "{wanted} never came");
    };
    until("ready");
    kill(pid, Signal::SIGHUP).expect("sent");
    until("config.reload");
    kill(pid, Signal::SIGTERM).expect("sent");
    until("sidecar.stop");
    assert!(child.wait().expect("it ends").success());
}

fn serve(workspace: &TempDir, admin: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sandbox-sidecar"));
    command.args(["--listen", "ws://127.0.0.1:0", "--admin-listen", admin, "--insecure-no-auth"]);
    command.args(["--log-format", "json", "--workspace-root"]).arg(workspace.path());
    command.stdout(Stdio::null());
    command
}
