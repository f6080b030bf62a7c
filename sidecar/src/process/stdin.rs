//! The way into one process: queued writes and the end of input, applied in order by one task that is started with the
//! first of them.
//!
//! A process that never reads makes its own writes wait and nothing else. What waits outlives the connection that it came
//! by, so each carries a share of what its session may have waiting.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustix::termios::{LocalModes, SpecialCodeIndex, tcgetattr};
use sidecar_protocol::process::WriteStatus;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::time::Instant;

use super::Phase;
use super::watched::watch;

/// Write ids that are remembered, so that a repeated one is not applied again.
const REMEMBERED: usize = 4096;

/// What VEOF is unless the terminal says otherwise.
const EOT: u8 = 4;

/// The queue. The end of the pipe or terminal comes with the launch.
#[derive(Debug)]
pub(super) struct Stdin {
    queue: OnceLock<mpsc::UnboundedSender<Job>>,
    end: Arc<Mutex<Option<OwnedFd>>>,
    /// Apart from the process's progress, which each piece of output changes.
    phase: watch::Sender<Phase>,
    terminal: bool,
    written_at: Arc<Mutex<Instant>>,
}

/// What a client gives to a process.
#[derive(Debug)]
pub(crate) enum Input {
    /// To be written, once where they have a write id.
    Bytes(Vec<u8>, Option<String>),
    /// The last one.
    End,
}

#[derive(Debug)]
struct Job {
    input: Input,
    answer: Answer,
    share: Share,
}

/// Is told what has become of an input.
pub(crate) struct Answer(Box<dyn FnOnce(WriteStatus) + Send>);

impl Answer {
    pub(crate) fn new(answer: impl FnOnce(WriteStatus) + Send + 'static) -> Answer {
        Answer(Box::new(answer))
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answer")
    }
}

/// What queued input takes of its session's limit.
pub(crate) type Share = OwnedSemaphorePermit;

impl Stdin {
    pub(super) fn new(terminal: bool) -> Stdin {
        let written_at = Arc::new(Mutex::new(Instant::now()));
        let phase = watch::Sender::new(Phase::Starting);
        Stdin { queue: OnceLock::new(), end: Arc::default(), phase, terminal, written_at }
    }

    /// Takes the non-blocking end to write to. Before this, writes wait.
    pub(super) fn open(&self, end: Option<OwnedFd>) {
        *self.end.lock().unwrap_or_else(PoisonError::into_inner) = end;
    }

    /// The process has come so far.
    pub(super) fn reached(&self, phase: Phase) {
        self.phase.send_if_modified(|reached| std::mem::replace(reached, phase) != phase);
    }

    /// Closes the end where no write has ever used it; the task closes its own.
    pub(super) fn close(&self) {
        self.open(None);
    }

    /// When the process last took bytes.
    pub(super) fn written_at(&self) -> Instant {
        *self.written_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues an input behind those of earlier calls. Must be called within the runtime.
    pub(super) fn queue(&self, input: Input, share: Share, answer: Answer) {
        let queue = self.queue.get_or_init(|| {
            let (queue, jobs) = mpsc::unbounded_channel();
            let way = Way { terminal: self.terminal, mid_line: false, written_at: self.written_at.clone() };
            tokio::spawn(serve(jobs, way, self.end.clone(), self.phase.subscribe()));
            queue
        });
        if let Err(mpsc::error::SendError(job)) = queue.send(Job { input, answer, share }) {
            (job.answer.0)(WriteStatus::StdinClosed);
        }
    }
}

/// Ends when the process is forgotten.
async fn serve(
    mut jobs: mpsc::UnboundedReceiver<Job>,
    mut way: Way,
    end: Arc<Mutex<Option<OwnedFd>>>,
    mut phase: watch::Receiver<Phase>,
) {
    let launched = phase.wait_for(|phase| *phase != Phase::Starting).await.map(|phase| *phase);
    let end = end.lock().unwrap_or_else(PoisonError::into_inner).take();
    let mut end = end.and_then(|end| watch(end, Interest::WRITABLE).ok());
    let mut applied = Applied::default();
    loop {
        let job = tokio::select! {
            biased;
            () = exited(&mut phase), if end.is_some() => {
                end = None;
                continue;
            }
            job = jobs.recv() => job,
        };
        let Some(Job { input, answer, share }) = job else { return };
        let status = match (&launched, &end) {
            (Ok(Phase::Failed), _) => WriteStatus::UnknownProcess,
            _ if applied.holds(&input) => WriteStatus::Accepted,
            (_, None) => WriteStatus::StdinClosed,
            (_, Some(fd)) => tokio::select! {
                biased;
                written = way.put(fd, &input) => match written {
                    Ok(()) => WriteStatus::Accepted,
                    Err(_) => WriteStatus::StdinClosed,
                },
                () = exited(&mut phase) => WriteStatus::StdinClosed,
            },
        };
        match (status, input) {
            (WriteStatus::Accepted, Input::Bytes(_, write_id)) => applied.remember(write_id),
            _ => end = None,
        }
        // Before the answer: whoever has it has the share back.
        drop(share);
        (answer.0)(status);
    }
}

async fn exited(phase: &mut watch::Receiver<Phase>) {
    // An error means that the process is forgotten, which comes after its exit.
    let _ = phase.wait_for(|phase| *phase >= Phase::Exited).await;
}

/// How input is written.
struct Way {
    terminal: bool,
    /// Whether the last line that was written to a terminal is unfinished.
    mid_line: bool,
    written_at: Arc<Mutex<Instant>>,
}

impl Way {
    async fn put(&mut self, fd: &AsyncFd<OwnedFd>, input: &Input) -> io::Result<()> {
        match input {
            Input::Bytes(bytes, _) => self.write_all(fd, bytes).await,
            Input::End if self.terminal => self.write_all(fd, &self.end_of_input(fd.get_ref())).await,
            // Closing the pipe is the end.
            Input::End => Ok(()),
        }
    }

    async fn write_all(&mut self, fd: &AsyncFd<OwnedFd>, mut bytes: &[u8]) -> io::Result<()> {
        while let Some(last) = bytes.last() {
            let written = fd.async_io(Interest::WRITABLE, |fd| Ok(rustix::io::write(fd, bytes)?)).await?;
            self.mid_line = !matches!(*last, b'\n' | b'\r' | EOT);
            *self.written_at.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
            bytes = &bytes[written..];
        }
        Ok(())
    }

    /// What the terminal takes for the end: its VEOF at the start of a line. In the middle of one, the first VEOF only
    /// hands over what there is of the line, and the second is the end.
    fn end_of_input(&self, terminal: &OwnedFd) -> Vec<u8> {
        let settings = tcgetattr(terminal).ok();
        let code = settings.as_ref().map_or(EOT, |s| s.special_codes[SpecialCodeIndex::VEOF]);
        let by_line = settings.is_none_or(|s| s.local_modes.contains(LocalModes::ICANON));
        // A terminal may have no such character at all.
        let code = if code == 0 { EOT } else { code };
        vec![code; if by_line && self.mid_line { 2 } else { 1 }]
    }
}

/// The newest write ids that were applied.
#[derive(Debug, Default)]
struct Applied {
    ids: HashSet<String>,
    order: VecDeque<String>,
}

impl Applied {
    fn holds(&self, input: &Input) -> bool {
        matches!(input, Input::Bytes(_, Some(id)) if self.ids.contains(id))
    }

    fn remember(&mut self, id: Option<String>) {
        let Some(id) = id else { return };
        if !self.ids.insert(id.clone()) {
            return;
        }
        self.order.push_back(id);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::{Semaphore, oneshot};

    use super::*;

    #[tokio::test]
    async fn in_order_once_and_never_after_the_exit() {
        let (far, near) = std::io::pipe().expect("a pipe");
        let stdin = Stdin::new(false);
        let write = |bytes: Vec<u8>, id: Option<&str>, share| {
            let (reply, answer) = oneshot::channel();
            let reply = Answer::new(move |status| reply.send(status).expect("it is waited for"));
            stdin.queue(Input::Bytes(bytes, id.map(str::to_owned)), share, reply);
            async { answer.await.expect("an answer") }
        };
        let shares = Arc::new(Semaphore::new(2));
        let share = || shares.clone().try_acquire_owned().expect("a share");
        let early = write(b"a".to_vec(), Some("1"), share());
        let repeated = write(b"a".to_vec(), Some("1"), share());
        rustix::io::ioctl_fionbio(&near, true).expect("non-blocking");
        stdin.open(Some(near.into()));
        stdin.reached(Phase::Running);
        assert_eq!([early.await, repeated.await], [WriteStatus::Accepted, WriteStatus::Accepted]);
        assert_eq!(write(b"b".to_vec(), None, share()).await, WriteStatus::Accepted);
        let stuck = write(vec![0; 1 << 20], Some("2"), share());
        let stuck = tokio::spawn(stuck);
        stdin.reached(Phase::Exited);
        assert_eq!(stuck.await.expect("an answer"), WriteStatus::StdinClosed);
        assert_eq!(write(Vec::new(), Some("1"), share()).await, WriteStatus::Accepted);
        assert_eq!(write(Vec::new(), Some("2"), share()).await, WriteStatus::StdinClosed);
        let text = std::io::read_to_string(far).expect("the end is closed");
        assert_eq!(text.trim_end_matches('\0'), "ab");
    }

    #[test]
    fn old_write_ids_are_forgotten() {
        let mut applied = Applied::default();
        for id in 0..=REMEMBERED {
            applied.remember(Some(id.to_string()));
        }
        let repeated = |id: &str| applied.holds(&Input::Bytes(Vec::new(), Some(id.into())));
        assert!(!repeated("0") && repeated("1"));
        assert_eq!(applied.ids.len(), applied.order.len());
    }
}
