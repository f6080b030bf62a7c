//! Metrics told as the config wants them: served while the client runs, left in a file at its end.

use std::path::PathBuf;

use super::serve::Endpoint;
use super::{Metrics, file};
use crate::config::Config;
use crate::error::Error;

/// What is done with the metrics of one client.
#[derive(Debug)]
pub struct Report {
    metrics: Metrics,
    endpoint: Option<Endpoint>,
    file: Option<PathBuf>,
}

impl Report {
    /// Starts serving, where `metrics_listen` says so.
    ///
    /// # Errors
    /// [`Error::MetricsListen`].
    pub async fn start(config: &Config, metrics: Metrics) -> Result<Self, Error> {
        let endpoint = match config.metrics_listen {
            Some(addr) => Some(Endpoint::listen(addr, metrics.clone()).await?),
            None => None,
        };
        Ok(Self { metrics, endpoint, file: config.metrics_file.clone() })
    }

    /// What is counted in.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Where they are served, where they are.
    pub fn endpoint(&self) -> Option<&Endpoint> {
        self.endpoint.as_ref()
    }

    /// Leaves the file, where `metrics_file` names one.
    ///
    /// # Errors
    /// As [`file::write`].
    pub async fn finish(self) -> Result<(), Error> {
        let Self { metrics, endpoint: _endpoint, file } = self;
        let Some(path) = file else { return Ok(()) };
        let written = tokio::task::spawn_blocking(move || file::write(&metrics, &path)).await;
        // Only a runtime that is being shut down drops the task.
        written.unwrap_or(Ok(()))
    }
}
