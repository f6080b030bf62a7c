//! The JSON Schema of every message, for clients in other languages.

use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use crate::error::{ErrorData, RpcError};
use crate::method::{self, Method};
use crate::{fs, process, session};

/// A document whose `methods` and `notifications` refer to the types under `$defs`.
pub fn document() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let methods: Map<_, _> = Method::ALL
        .iter()
        .map(|method| {
            let (params, result) = of_method(*method, &mut generator);
            (method.name().to_owned(), json!({"params": params, "result": result}))
        })
        .collect();
    let of_client = json!({
        (method::INITIALIZED): generator.subschema_for::<fs::Empty>(),
        (method::PROCESS_ACK): generator.subschema_for::<process::AckNotification>(),
    });
    let of_server = json!({
        (method::PROCESS_OUTPUT): generator.subschema_for::<process::OutputNotification>(),
        (method::PROCESS_EXITED): generator.subschema_for::<process::ExitedNotification>(),
        (method::PROCESS_CLOSED): generator.subschema_for::<process::ClosedNotification>(),
        (method::FS_MISSING_CHANGED): generator.subschema_for::<fs::Watch>(),
        (method::FS_CHANGED): generator.subschema_for::<fs::ChangedNotification>(),
    });
    let error = generator.subschema_for::<RpcError>();
    let data = generator.subschema_for::<ErrorData>();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The protocol of sandbox-sidecar",
        "description": "JSON-RPC 2.0, one message per WebSocket frame or line. Each method has params and a result.",
        "protocolVersion": crate::PROTOCOL_VERSION,
        "methods": methods,
        "notifications": {"client": of_client, "server": of_server},
        "error": error,
        "errorData": data,
        "$defs": generator.take_definitions(true),
    })
}

fn pair<P: JsonSchema, R: JsonSchema>(generator: &mut SchemaGenerator) -> (Schema, Schema) {
    (generator.subschema_for::<P>(), generator.subschema_for::<R>())
}

/// The params and the result.
fn of_method(method: Method, generator: &mut SchemaGenerator) -> (Schema, Schema) {
    let of = match method {
        Method::Initialize => pair::<session::InitializeParams, session::InitializeResult>,
        Method::EnvironmentInfo => pair::<fs::Empty, session::EnvironmentInfo>,
        Method::EnvironmentStatus => pair::<fs::Empty, session::StatusResult>,
        Method::SessionEnd => pair::<fs::Empty, fs::Empty>,
        Method::ProcessStart => pair::<process::StartParams, process::StartResult>,
        Method::ProcessRead => pair::<process::ReadParams, process::ReadResult>,
        Method::ProcessWrite => pair::<process::WriteParams, process::WriteResult>,
        Method::ProcessSignal => pair::<process::SignalParams, fs::Empty>,
        Method::ProcessTerminate => pair::<process::TerminateParams, process::TerminateResult>,
        Method::ProcessCloseStdin => pair::<process::ProcessParams, process::CloseStdinResult>,
        Method::ProcessResize => pair::<process::ResizeParams, fs::Empty>,
        Method::ProcessWait => pair::<process::WaitParams, process::WaitResult>,
        Method::ProcessList => pair::<process::ListParams, process::ListResult>,
        Method::ProcessSnapshot => pair::<process::ProcessParams, process::SnapshotResult>,
        Method::FsReadFile => pair::<fs::PathParams, fs::ReadFileResult>,
        Method::FsWriteFile => pair::<fs::WriteFileParams<'_>, fs::WriteFileResult>,
        Method::FsCreateDirectory => pair::<fs::CreateDirectoryParams, fs::Empty>,
        Method::FsGetMetadata => pair::<fs::PathParams, fs::Metadata>,
        Method::FsReadDirectory => pair::<fs::PathParams, fs::ReadDirectoryResult>,
        Method::FsRemove => pair::<fs::RemoveParams, fs::Empty>,
        Method::FsCopy => pair::<fs::CopyParams, fs::Empty>,
        Method::FsRename => pair::<fs::RenameParams, fs::Empty>,
        Method::FsCreateSymlink => pair::<fs::CreateSymlinkParams, fs::Empty>,
        Method::FsCanonicalize => pair::<fs::PathParams, fs::CanonicalizeResult>,
        Method::FsWalk => pair::<fs::WalkParams, fs::WalkResult>,
        Method::FsOpen => pair::<fs::OpenParams, fs::Handle>,
        Method::FsReadBlock => pair::<fs::ReadBlockParams, fs::ReadBlockResult>,
        Method::FsWriteBlock => pair::<fs::WriteBlockParams<'_>, fs::Empty>,
        Method::FsClose => pair::<fs::CloseParams, fs::Empty>,
        Method::FsWatchMissing => pair::<fs::WatchMissingParams, fs::WatchResult>,
        Method::FsWatch => pair::<fs::WatchParams, fs::WatchResult>,
        Method::FsUnwatch => pair::<fs::Watch, fs::Empty>,
    };
    of(generator)
}
