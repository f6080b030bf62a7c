//! A connection for the length of one command: made, used, closed, whichever signal comes in between.

use agent_client::Environment;
use agent_client::config::Config;
use anyhow::Context as _;

use super::signals::Signals;

/// Connects, does the work, and closes. A signal ends it early, with the exit code that a shell would report.
pub(super) async fn with(
    config: &Config,
    work: impl AsyncFnOnce(&Environment) -> anyhow::Result<u8>,
) -> anyhow::Result<u8> {
    following_signals(config, async |environment, signals| {
        tokio::select! {
            outcome = work(environment) => outcome,
            signal = signals.end() => Ok(signal.exit_code()),
        }
    })
    .await
}

/// As [`with`]; the work listens to signals itself.
pub(super) async fn following_signals(
    config: &Config,
    work: impl AsyncFnOnce(&Environment, &mut Signals) -> anyhow::Result<u8>,
) -> anyhow::Result<u8> {
    // Listened to from here on: an embedded sidecar must end its launches, whenever the signal comes.
    let mut signals = Signals::listen().context("cannot listen for signals")?;
    let environment = tokio::select! {
        connected = Environment::connect(config) => connected?,
        signal = signals.end() => return Ok(signal.exit_code()),
    };
    let outcome = work(&environment, &mut signals).await;
    tokio::select! {
        () = environment.close() => {}
        _ = signals.end() => {}
    }
    outcome
}
