//! Messages: what decodes is encoded the same again; params of every method are decoded or refused.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use serde_json::value::RawValue;
use sidecar_protocol::envelope::{self, Incoming};
use sidecar_protocol::{Method, fs, process, session};

fuzz_target!(|text: &str| {
    match envelope::decode(text) {
        Ok(Incoming::Request { id, method, params }) => {
            if let Some(method) = Method::from_name(&method) {
                decode(method, params);
            }
            let echoed = envelope::response(&id, &());
            let answer: Value = serde_json::from_str(&echoed).expect("an answer is JSON");
            let asked: Value = serde_json::to_value(&id).expect("an id is JSON");
            assert_eq!(answer["id"], asked);
        }
        Ok(Incoming::Notification { params, .. }) => {
            let _ = envelope::params::<process::OutputNotification>(params);
            let _ = envelope::params::<process::ExitedNotification>(params);
            let _ = envelope::params::<process::ClosedNotification>(params);
            let _ = envelope::params::<process::AckNotification>(params);
            let _ = envelope::params::<fs::ChangedNotification>(params);
        }
        Ok(Incoming::Response { outcome, .. }) => {
            if let Ok(result) = outcome {
                let _ = serde_json::from_str::<session::InitializeResult>(result.get());
                let _ = serde_json::from_str::<process::StartResult>(result.get());
                let _ = serde_json::from_str::<process::ReadResult>(result.get());
                let _ = serde_json::from_str::<fs::WalkResult>(result.get());
            }
        }
        Err(_) => {}
    }
});

/// What decodes as params of a method, written and read again, is the same. No function: what is read again borrows from
/// another text.
macro_rules! round {
    ($params:ty, $raw:expr) => {
        if let Ok(params) = envelope::params::<$params>($raw)
            && let Ok(once) = serde_json::to_string(&params)
        {
            let again: $params = serde_json::from_str(&once).expect("what is sent can be read");
            assert_eq!(once, serde_json::to_string(&again).expect("it was written before"));
        }
    };
}

fn decode(method: Method, raw: Option<&RawValue>) {
    match method {
        Method::Initialize => round!(session::InitializeParams, raw),
        Method::ProcessStart => round!(process::StartParams, raw),
        Method::ProcessRead => round!(process::ReadParams, raw),
        Method::ProcessWrite => round!(process::WriteParams, raw),
        Method::ProcessSignal => round!(process::SignalParams, raw),
        Method::ProcessTerminate => round!(process::TerminateParams, raw),
        Method::ProcessResize => round!(process::ResizeParams, raw),
        Method::ProcessWait => round!(process::WaitParams, raw),
        Method::FsWriteFile => round!(fs::WriteFileParams<'_>, raw),
        Method::FsRemove => round!(fs::RemoveParams, raw),
        Method::FsCopy => round!(fs::CopyParams, raw),
        Method::FsWalk => round!(fs::WalkParams, raw),
        Method::FsOpen => round!(fs::OpenParams, raw),
        Method::FsWriteBlock => round!(fs::WriteBlockParams<'_>, raw),
        Method::FsWatchMissing => round!(fs::WatchMissingParams, raw),
        _ => round!(fs::PathParams, raw),
    }
}
