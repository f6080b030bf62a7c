//! One client's session at the sidecar: requests go there translated, and their answers come back to the outlet.

use std::borrow::Cow;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde::Deserialize;
use serde_json::value::RawValue;
use sidecar_protocol::fs::{Watch, WatchResult};
use sidecar_protocol::process::AckNotification;
use sidecar_protocol::session::InitializeParams;
use sidecar_protocol::{Method, RequestId, RpcError};

use super::Shared;
use super::outlet::{Notes, Outlet, Permit};
use super::raw::{Object, value};
use super::translate::Translator;
use crate::client::{self, Call, Options, Replay, Reply, Watching, Wire};
use crate::error::Error;

/// A session at the sidecar.
pub(super) struct Upstream {
    wire: Wire,
    translator: Arc<Translator>,
    acknowledged: Arc<AtomicBool>,
    /// Ids of writes that came without one, so that they too can be sent again.
    writes: AtomicU64,
    /// Sets them apart from those of another gateway in the same session.
    own: u64,
}

/// A request of the client's.
pub(super) struct Asked<'a> {
    pub(super) id: RequestId,
    pub(super) method: &'a str,
    pub(super) params: Option<&'a RawValue>,
    pub(super) permit: Permit,
}

impl Upstream {
    /// Opens a session, or takes over the one that the client names; the result of `initialize` for the client.
    pub(super) async fn open(
        shared: &Shared,
        params: InitializeParams,
    ) -> Result<(Self, Notes, Box<RawValue>), RpcError> {
        let options = Options {
            client_name: if params.client_name.is_empty() {
                shared.options.client_name.clone()
            } else {
                params.client_name
            },
            // A client that does not speak of sessions wants an end of its processes with its connection.
            leave_processes: params.resume_session_id.is_some(),
            ..shared.options.clone()
        };
        let (tap, queue) = client::tap();
        let resume = params.resume_session_id.flatten();
        let opened = client::resumable(Arc::clone(&shared.connector), &options, resume, Some(tap)).await;
        let (wire, greeting) = opened.map_err(|e| refused(&e))?;
        let translator = Arc::new(shared.translator(greeting.server.environment_info.as_ref()));
        let acknowledged = Arc::<AtomicBool>::default();
        let result = translator.greeting(&greeting.raw);
        let notes = Notes {
            queue,
            wire: wire.clone(),
            translator: Arc::clone(&translator),
            acknowledged: Arc::clone(&acknowledged),
        };
        let own = RandomState::new().hash_one(&greeting.server.session_id);
        Ok((Self { wire, translator, acknowledged, writes: AtomicU64::new(0), own }, notes, result))
    }

    /// Passes a request on; the answer goes to the outlet, sooner or later.
    pub(super) async fn pass_on(&self, asked: Asked<'_>, outlet: &Outlet) {
        let empty = value(&serde_json::Map::new());
        let params = match self.translator.params(asked.method, asked.params.unwrap_or(&empty)) {
            Ok(params) => self.numbered(asked.method, params),
            Err(error) => return outlet.error(&asked.id, &error, asked.permit),
        };
        let start = start_of(asked.method, &params);
        let id = asked.id.clone();
        let answer = Answer {
            id: asked.id,
            method: asked.method.to_owned(),
            watch: watch_of(asked.method, &params, &self.wire),
            translator: Arc::clone(&self.translator),
            outlet: outlet.clone(),
            permit: asked.permit,
        };
        let params: &RawValue = &params;
        let call = Call { method: asked.method, params: &params, replay: Replay::of(asked.method) };
        let then = Box::new(|reply| answer.give(reply));
        let sent = match start {
            Some((process_id, tty)) => self.wire.pass_on_start(call, process_id, tty, then).await,
            None => self.wire.pass_on(call, then).await,
        };
        if let Err(e) = sent {
            outlet.error(&id, &refused(&e), None);
        }
    }

    /// The client says what it has.
    pub(super) fn acknowledge(&self, ack: &AckNotification) {
        self.acknowledged.store(true, Ordering::Relaxed);
        self.wire.acknowledged(&ack.process_id.as_str().into(), ack.seq);
    }

    /// A write that can be sent twice.
    fn numbered<'a>(&self, method: &str, params: Cow<'a, RawValue>) -> Cow<'a, RawValue> {
        if method != Method::ProcessWrite.name() {
            return params;
        }
        let Some(mut write) = Object::parse(&params).filter(|write| write.text("writeId").is_none()) else {
            return params;
        };
        let number = self.writes.fetch_add(1, Ordering::Relaxed);
        write.set("writeId", value(&format!("gateway-{:x}-{number}", self.own)));
        Cow::Owned(value(&write))
    }

    /// Returns once the session has ended, with the reason.
    pub(super) async fn ended(&self) -> Error {
        self.wire.ended().await;
        self.wire.lost()
    }

    /// Ends the connection to the sidecar, and the session where the client has one that ends with it.
    pub(super) async fn close(self) {
        self.wire.close().await;
    }
}

/// What an answer needs to find its way.
struct Answer {
    id: RequestId,
    method: String,
    watch: Option<(Watching, Method, Watch, Box<RawValue>)>,
    translator: Arc<Translator>,
    outlet: Outlet,
    permit: Permit,
}

impl Answer {
    fn give(self, reply: Reply) {
        let permit = self.permit;
        let error = match reply {
            Reply::Answer(Ok(result)) => {
                if let Some((watches, method, watch, params)) = self.watch {
                    watched(&watches, method, watch, params, &result);
                }
                let result = self.translator.result(&self.method, &result);
                return self.outlet.result(&self.id, &result, permit);
            }
            Reply::Answer(Err(error)) => self.translator.error(error),
            Reply::Lost(reason) => refused(&Error::ConnectionLost { reason }),
            Reply::Interrupted => {
                let method = Method::from_name(&self.method).map_or("the request", Method::name);
                refused(&Error::Interrupted { method })
            }
        };
        self.outlet.error(&self.id, &error, permit);
    }
}

/// The process that a request starts, and whether it gets a terminal.
fn start_of(method: &str, params: &RawValue) -> Option<(Arc<str>, bool)> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Start<'a> {
        #[serde(borrow)]
        process_id: Cow<'a, str>,
        #[serde(default)]
        tty: Option<bool>,
    }
    if method != Method::ProcessStart.name() {
        return None;
    }
    let start: Start<'_> = serde_json::from_str(params.get()).ok()?;
    Some((start.process_id.into(), start.tty.unwrap_or_default()))
}

/// The watch that a request makes or ends.
fn watch_of(
    method: &str,
    params: &RawValue,
    wire: &Wire,
) -> Option<(Watching, Method, Watch, Box<RawValue>)> {
    let method = Method::from_name(method)?;
    if !matches!(method, Method::FsWatch | Method::FsWatchMissing | Method::FsUnwatch) {
        return None;
    }
    let watch = serde_json::from_str(params.get()).ok()?;
    Some((wire.watches(), method, watch, params.to_owned()))
}

fn watched(watches: &Watching, method: Method, watch: Watch, params: Box<RawValue>, result: &RawValue) {
    if method == Method::FsUnwatch {
        watches.ended(&watch.watch_id);
    } else if serde_json::from_str(result.get()).is_ok_and(|r: WatchResult| r.watching) {
        watches.made(watch.watch_id, method, params);
    }
}

/// A failure on this side, as an answer.
fn refused(error: &Error) -> RpcError {
    match error {
        Error::Rpc { error, .. } => error.clone(),
        Error::ProcessExists { process_id } => {
            RpcError::invalid_request(format!("process {process_id} already exists"))
        }
        Error::RequestTooLarge { .. } => RpcError::invalid_request(error.to_string()),
        _ => RpcError::internal(error.to_string()),
    }
}
