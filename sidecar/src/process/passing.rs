//! What becomes of output while it is read: it is looked at for what the sandbox denied, and made into the notification that
//! carries it. A part of its pump.

use std::sync::Arc;

use sidecar_protocol::MAX_CHUNK_BYTES;
use sidecar_protocol::frame::OutputMessage;
use sidecar_protocol::process::Stream;
use sidecar_sandbox::Exit;

use super::Process;
use super::denied::Denial;
use super::source::Intake;
use crate::session::Session;

/// A terminal that gives so many bytes at once most likely has more, bytes.
const MUCH: usize = 1 << 10;

pub(super) struct Passing {
    session: Arc<Session>,
    process: Arc<Process>,
    denial: Option<Denial>,
    /// Whether there is somebody to tell.
    is_heard: bool,
    /// Of the read that is going on.
    message: Option<OutputMessage>,
}

impl Passing {
    pub(super) fn new(session: Arc<Session>, process: Arc<Process>, denial: Option<Denial>) -> Passing {
        Passing { session, process, denial, is_heard: false, message: None }
    }

    /// Whether notifications are to be made from now on.
    pub(super) fn heard(&mut self, is_heard: bool) {
        self.is_heard = is_heard;
    }

    /// The notification of the last read; `None` where nobody hears it.
    pub(super) fn message(&mut self) -> Option<Vec<u8>> {
        self.message.take().map(OutputMessage::finish)
    }

    /// As [`Denial::guess`] does.
    pub(super) fn guess(&self, exit: Exit) -> (bool, Option<String>) {
        self.denial.as_ref().map_or((false, None), |denial| denial.guess(exit))
    }

    /// Nothing is looked at any more.
    pub(super) fn end(&mut self) {
        self.denial = None;
    }
}

impl Intake for Passing {
    fn piece(&mut self, stream: Stream, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if let Some(denial) = &mut self.denial {
            denial.scan(stream, bytes);
        }
        if !self.is_heard {
            return;
        }
        let message = self.message.get_or_insert_with(|| {
            let is_more = stream == Stream::Pty && bytes.len() >= MUCH;
            let len = if is_more { MAX_CHUNK_BYTES } else { bytes.len() };
            // Nobody else gives numbers.
            let seq = self.process.log().last_seq() + 1;
            OutputMessage::new(self.session.shared().spare.take(len), self.process.id(), seq, stream, len)
        });
        message.push(bytes);
    }
}
