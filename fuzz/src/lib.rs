//! What the fuzz targets share: a server in this process with a scratch workspace, and its clients.
//!
//! A server is made once per process and serves every input, so that what an input leaves behind adds up until
//! [`Fixture::check`] sees it.

use std::fs;
use std::future::Future;
use std::time::Duration;

use sandbox_sidecar::Server;
use sandbox_sidecar::config::{Config, ListenUrl};
use serde_json::{Value, json};
use sidecar_protocol::envelope::{self, Incoming};
use sidecar_sandbox::TmpPolicy;
use tempfile::TempDir;
use tokio::io::DuplexStream;
use tokio::runtime::{Builder, Runtime};

/// What an input may start. The fuzzer chooses among them; it does not make commands up.
const PROGRAMS: [&[&str]; 6] = [
    &["true"],
    &["cat"],
    &["sh", "-c", "echo out; echo err >&2; exit 3"],
    &["sh", "-c", "head -c 300000 /dev/zero; sleep 1 & kill -9 $$"],
    &["./missing"],
    &[],
];

/// Far above what one input takes; what waits longer has hung.
const PATIENCE: Duration = Duration::from_secs(20);

/// Inputs between two looks at what was left behind.
const LOOK_EVERY: u64 = 500;

/// Far above what a server with one client has open.
const MAX_DESCRIPTORS: usize = 400;
const MAX_THREADS: usize = 600;

/// A server, and the runtime that it lives in.
pub struct Fixture {
    server: Server,
    pub workspace: TempDir,
    runtime: Runtime,
    inputs: u64,
}

impl Fixture {
    /// Starts it; a session outlives its connection for that long. Below the directory for temporary files, which the script that runs the targets removes.
    ///
    /// # Panics
    /// Where it cannot be started: then nothing can be fuzzed.
    pub fn start(detached_ttl: Duration) -> Fixture {
        let workspace = tempfile::tempdir().expect("a workspace");
        let tmp = workspace.path().join("tmp");
        fs::create_dir(&tmp).expect("a directory for temporary files");
        let mut config = Config::embedded(workspace.path().to_owned()).expect("a valid config");
        config.listen = vec![ListenUrl::Unix(workspace.path().with_extension("socket"))];
        // No write of an input leads out of the workspace.
        config.sandbox.tmp = TmpPolicy::Private;
        config.sandbox.roots.tmp = tmp;
        let limits = &mut config.limits;
        (limits.message_bytes, limits.request_bytes) = (1 << 20, 1 << 20);
        limits.processes = 8;
        limits.detached_ttl = detached_ttl;
        limits.terminate_grace = Duration::from_millis(100);
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let server = runtime.block_on(Server::start(config)).expect("the server starts");
        Fixture { server, workspace, runtime, inputs: 0 }
    }

    /// A connection to it.
    pub fn connect(&self) -> DuplexStream {
        let _runtime = self.runtime.enter();
        self.server.connect_in_process()
    }

    /// Runs one input.
    ///
    /// # Panics
    /// Where it hangs, or too much of the inputs before it is left.
    pub fn run(&mut self, input: impl Future<Output = ()>) {
        self.runtime.block_on(async { tokio::time::timeout(PATIENCE, input).await }).expect("it ends");
        self.inputs += 1;
        if self.inputs.is_multiple_of(LOOK_EVERY) {
            self.check();
        }
    }

    fn check(&self) {
        let count = |dir: &str| fs::read_dir(dir).expect(dir).count();
        let (descriptors, threads) = (count("/proc/self/fd"), count("/proc/self/task"));
        assert!(descriptors < MAX_DESCRIPTORS, "{descriptors} descriptors are open");
        assert!(threads < MAX_THREADS, "{threads} threads run");
        for entry in fs::read_dir(self.workspace.path()).expect("the workspace").flatten() {
            if entry.file_name() != "tmp" {
                let _ = fs::remove_dir_all(entry.path()).or_else(|_| fs::remove_file(entry.path()));
            }
        }
    }
}

/// The message with a command of ours in the place of its own, where it starts one; `None` where it may start one that
/// cannot be seen.
pub fn tame(text: &str) -> Option<String> {
    const START: &str = "process/start";
    match serde_json::from_str::<Value>(text) {
        Ok(mut message) if message["method"] == START => {
            let argv = message["params"]["argv"].to_string();
            let choice = argv.bytes().map(usize::from).sum::<usize>() % PROGRAMS.len();
            if let Some(params) = message["params"].as_object_mut() {
                params.insert("argv".into(), json!(PROGRAMS[choice]));
                params.insert("arg0".into(), Value::Null);
            }
            Some(message.to_string())
        }
        Ok(_) => Some(text.to_owned()),
        Err(_) => match envelope::decode(text) {
            Ok(Incoming::Request { method, .. }) if method == START => None,
            _ => Some(text.to_owned()),
        },
    }
}

/// An input with its placeholders filled in.
pub fn fill(text: &str, workspace: &TempDir, session: &str) -> String {
    text.replace("$WORKSPACE", &workspace.path().display().to_string()).replace("$SESSION", session)
}
