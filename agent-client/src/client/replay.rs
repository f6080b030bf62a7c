//! What becomes of a request that was on its way when the connection was lost: sent again where that changes nothing,
//! and an error that says so where it cannot be known whether it was done.

use serde_json::value::{RawValue, to_raw_value};
use sidecar_protocol::process::{CloseStdinResult, StartResult, WriteStatus};
use sidecar_protocol::{Method, RpcError};

/// What to do with it on the next connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replay {
    /// Send it again: twice is the same as once.
    Repeat,
    /// Send it again; that it was done already is the answer.
    Start,
    /// The same, of the end of an input.
    CloseStdin,
    /// Do not: it may have been done, and once more would do more, or what it is about has gone with the connection.
    Forget,
}

impl Replay {
    /// The rule of a method. A `process/write` must bear a `writeId`.
    pub(crate) fn of(method: &str) -> Self {
        use Method as M;
        let Some(method) = Method::from_name(method) else { return Replay::Forget };
        match method {
            M::ProcessStart => Replay::Start,
            M::ProcessCloseStdin => Replay::CloseStdin,
            M::EnvironmentInfo
            | M::EnvironmentStatus
            | M::SessionEnd
            | M::ProcessRead
            | M::ProcessWrite
            | M::ProcessTerminate
            | M::ProcessResize
            | M::ProcessWait
            | M::ProcessList
            | M::ProcessSnapshot
            | M::FsReadFile
            | M::FsWriteFile
            | M::FsGetMetadata
            | M::FsReadDirectory
            | M::FsCanonicalize
            | M::FsWalk
            | M::FsUnwatch => Replay::Repeat,
            // A signal could come twice; a second removal, rename, copy, link or new directory finds what the first one
            // left; handles and watches belong to the connection.
            M::Initialize
            | M::ProcessSignal
            | M::FsCreateDirectory
            | M::FsRemove
            | M::FsCopy
            | M::FsRename
            | M::FsCreateSymlink
            | M::FsOpen
            | M::FsReadBlock
            | M::FsWriteBlock
            | M::FsClose
            | M::FsWatch
            | M::FsWatchMissing => Replay::Forget,
        }
    }

    /// The answer to a request that was sent twice: an error that only says that the first was done is none.
    pub(super) fn settle(
        self,
        process_id: Option<&str>,
        outcome: Result<Box<RawValue>, RpcError>,
    ) -> Result<Box<RawValue>, RpcError> {
        let done = match (self, &outcome, process_id) {
            (Replay::Start, Err(error), Some(id))
                if error.message == format!("process {id} already exists") =>
            {
                // Its receipt is lost.
                let result = StartResult { process_id: id.to_owned(), sandbox_type: None, enforcement: None };
                to_raw_value(&result).ok()
            }
            (Replay::CloseStdin, Ok(raw), _) => match serde_json::from_str::<CloseStdinResult>(raw.get()) {
                Ok(CloseStdinResult { status: WriteStatus::StdinClosed }) => {
                    to_raw_value(&CloseStdinResult { status: WriteStatus::Accepted }).ok()
                }
                _ => None,
            },
            _ => None,
        };
        done.map_or(outcome, Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_says_it_was_done_is_none() {
        let exists = || Err(RpcError::invalid_request("process p already exists"));
        let settled = Replay::Start.settle(Some("p"), exists()).unwrap();
        assert_eq!(settled.get(), r#"{"processId":"p"}"#);
        assert!(Replay::Start.settle(Some("q"), exists()).is_err());
        assert!(Replay::Repeat.settle(Some("p"), exists()).is_err());
        let closed = to_raw_value(&CloseStdinResult { status: WriteStatus::StdinClosed }).unwrap();
        let settled = Replay::CloseStdin.settle(None, Ok(closed)).unwrap();
        assert_eq!(settled.get(), r#"{"status":"accepted"}"#);
    }
}
