//! The end of a session that would outlive its connection: what still runs in it is ended first.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::SinkExt as _;
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use sidecar_protocol::process::{ListResult, ProcessState, ProcessSummary, TerminateParams, TerminateResult};
use sidecar_protocol::{Method, RequestId, envelope};
use tokio::sync::oneshot;

use super::replay::Replay;
use super::table::{Reply, Request, Sending};
use super::wire::Lanes;
use crate::transport::{Outgoing, Sent};

/// How long the answers may take; the session's own time runs out later.
const PATIENCE: Duration = Duration::from_secs(5);

/// Ends the session. At a server that cannot do that, ends its processes, and what exited ones left in the background.
pub(super) async fn say(outgoing: &mut Outgoing, lanes: &Lanes) -> Result<(), String> {
    let nothing = serde_json::Map::new();
    let said = async {
        let ended: Result<IgnoredAny, String> =
            call(outgoing, lanes, Method::SessionEnd.name(), &nothing).await;
        if ended.is_ok() {
            return Ok(());
        }
        let listed: ListResult = call(outgoing, lanes, Method::ProcessList.name(), &nothing).await?;
        let runs = |p: &ProcessSummary| {
            matches!(p.state, ProcessState::Starting | ProcessState::Running) || p.background
        };
        for process in listed.processes.into_iter().filter(runs) {
            let params = TerminateParams {
                process_id: process.process_id,
                grace_ms: Some(0),
                descendants: true,
                pid: None,
            };
            let _: TerminateResult = call(outgoing, lanes, Method::ProcessTerminate.name(), &params).await?;
        }
        Ok(())
    };
    tokio::time::timeout(PATIENCE, said).await.unwrap_or_else(|_| Err("no answer in time".to_owned()))
}

async fn call<P: Serialize, R: DeserializeOwned>(
    outgoing: &mut Outgoing,
    lanes: &Lanes,
    method: &str,
    params: &P,
) -> Result<R, String> {
    let id = lanes.next_id.fetch_add(1, Ordering::Relaxed);
    let (sender, reply) = oneshot::channel();
    let request = Request {
        method: method.into(),
        replay: Replay::Forget,
        text: None,
        starts: None,
        state: Sending::Sent,
        then: Box::new(|reply| drop(sender.send(reply))),
    };
    let registered = lanes.table.open(|open| {
        open.expect(id, request);
        Ok(())
    });
    registered.map_err(|e| e.to_string())?;
    let text = envelope::request(&RequestId::Int(id), method, params);
    outgoing.send(Sent::Text(text.into())).await?;
    match reply.await {
        Ok(Reply::Answer(Ok(result))) => serde_json::from_str(result.get()).map_err(|e| e.to_string()),
        Ok(Reply::Answer(Err(error))) => Err(error.to_string()),
        _ => Err("no answer".to_owned()),
    }
}
