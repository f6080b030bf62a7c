//! The backend over a [`Client`]: translates to the wire's types and maps the cwd, nothing more.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base64::Engine as _;
use futures_util::future::BoxFuture;
use serde::de::IgnoredAny;
use sidecar_protocol::path::Spelling;
use sidecar_protocol::process::{
    CloseStdinResult, Enforcement, ProcessParams, ResizeParams, Signal, SignalParams, Size, StartParams,
    TerminateParams, TerminateResult, WaitParams, WaitResult, WriteParams, WriteResult, WriteStatus,
};
use sidecar_protocol::{BASE64, Method, WirePath};

use super::{ExecBackend, ExecProcess, Launch, Started};
use crate::client::Client;
use crate::error::Error;
use crate::mapping::Mapping;

/// Most bytes in one `process/write`, before base64: large writes let others in between.
const WRITE_BYTES: usize = 256 << 10;

/// Commands in a sidecar.
#[derive(Debug)]
pub struct SidecarBackend {
    client: Client,
    mapping: Mapping,
    started: AtomicU64,
}

impl SidecarBackend {
    /// Starts commands over `client`, in directories that `mapping` maps.
    pub fn new(client: Client, mapping: Mapping) -> Self {
        Self { client, mapping, started: AtomicU64::new(0) }
    }

    async fn launch(&self, launch: Launch) -> Result<Started, Error> {
        let number = self.started.fetch_add(1, Ordering::Relaxed) + 1;
        let params = StartParams {
            process_id: format!("p{number}"),
            argv: launch.argv,
            cwd: on_the_wire(self.mapping.to_workspace(&launch.cwd)?),
            env: launch.env,
            tty: launch.tty.is_some(),
            arg0: None,
            env_policy: launch.env_policy,
            pipe_stdin: launch.pipe_stdin,
            size: launch.tty,
            timeout_ms: launch.timeout.map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)),
            idle_timeout_ms: None,
            limits: None,
            sandbox: launch.sandbox,
            metadata: launch.metadata,
            enforce_managed_network: None,
            managed_network: None,
            network_proxy: None,
        };
        let (result, events) = self.client.start(&params).await?;
        let process = SidecarProcess {
            client: self.client.clone(),
            process_id: params.process_id,
            enforcement: result.enforcement,
            writes: AtomicU64::new(0),
        };
        Ok(Started { process: Arc::new(process), events })
    }
}

/// Plain where that is lossless, since errors come back in the same spelling and are for people.
fn on_the_wire(path: PathBuf) -> WirePath {
    let spelling = if path.to_str().is_some() { Spelling::Plain } else { Spelling::Uri };
    WirePath::new(path, spelling)
}

impl ExecBackend for SidecarBackend {
    fn start(&self, launch: Launch) -> BoxFuture<'_, Result<Started, Error>> {
        Box::pin(self.launch(launch))
    }
}

struct SidecarProcess {
    client: Client,
    process_id: String,
    enforcement: Option<Enforcement>,
    /// So far; numbers them, so that one that must be sent again is not applied twice.
    writes: AtomicU64,
}

impl SidecarProcess {
    async fn write_block(&self, bytes: &[u8]) -> Result<(), Error> {
        let params = WriteParams {
            process_id: self.process_id.clone(),
            chunk: BASE64.encode(bytes),
            write_id: Some(format!("w{}", self.writes.fetch_add(1, Ordering::Relaxed))),
        };
        let result: WriteResult = self.client.request(Method::ProcessWrite, &params).await?;
        self.accepted(result.status)
    }

    fn accepted(&self, status: WriteStatus) -> Result<(), Error> {
        match status {
            WriteStatus::Accepted => Ok(()),
            WriteStatus::StdinClosed => Err(Error::StdinClosed { process_id: self.process_id.clone() }),
            // It has started: its start was answered.
            WriteStatus::UnknownProcess | WriteStatus::Starting => {
                Err(Error::UnknownProcess { process_id: self.process_id.clone() })
            }
        }
    }
}

impl ExecProcess for SidecarProcess {
    fn process_id(&self) -> &str {
        &self.process_id
    }

    fn enforcement(&self) -> Option<&Enforcement> {
        self.enforcement.as_ref()
    }

    fn wait(&self, timeout: Option<Duration>) -> BoxFuture<'_, Result<WaitResult, Error>> {
        Box::pin(async move {
            let timeout_ms = timeout.map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
            let params = WaitParams { process_id: self.process_id.clone(), timeout_ms };
            self.client.request(Method::ProcessWait, &params).await
        })
    }

    fn write<'a>(&'a self, bytes: &'a [u8]) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            for block in bytes.chunks(WRITE_BYTES) {
                self.write_block(block).await?;
            }
            Ok(())
        })
    }

    fn close_stdin(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let params = ProcessParams { process_id: self.process_id.clone() };
            let result: CloseStdinResult = self.client.request(Method::ProcessCloseStdin, &params).await?;
            self.accepted(result.status)
        })
    }

    fn resize(&self, size: Size) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let Size { rows, cols } = size;
            let params = ResizeParams { process_id: self.process_id.clone(), rows, cols };
            let _: IgnoredAny = self.client.request(Method::ProcessResize, &params).await?;
            Ok(())
        })
    }

    fn signal(&self, signal: Signal) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let params = SignalParams { process_id: self.process_id.clone(), pid: None, signal };
            let _: IgnoredAny = self.client.request(Method::ProcessSignal, &params).await?;
            Ok(())
        })
    }

    fn terminate(&self) -> BoxFuture<'_, Result<bool, Error>> {
        Box::pin(async move {
            let params = TerminateParams {
                process_id: self.process_id.clone(),
                pid: None,
                grace_ms: None,
                descendants: false,
            };
            let result: TerminateResult = self.client.request(Method::ProcessTerminate, &params).await?;
            Ok(result.running)
        })
    }
}
