//! What a session is to do, in a few lines: no time, no threads, no connections.

use proptest::prelude::*;

/// Process ids in use.
pub(crate) const SLOTS: usize = 4;

/// What is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Gives back what it reads.
    Cat,
    /// Reads nothing, says nothing.
    Deaf,
    /// Says something and exits.
    Quick,
    /// Ignores what can be ignored.
    Stubborn,
    /// As deaf, in a terminal.
    Terminal,
}

impl Kind {
    pub(crate) fn any() -> impl Strategy<Value = Kind> {
        prop_oneof![
            4 => Just(Kind::Cat),
            1 => Just(Kind::Deaf),
            1 => Just(Kind::Quick),
            1 => Just(Kind::Stubborn),
            1 => Just(Kind::Terminal),
        ]
    }
}

/// How one has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) codes: &'static [i64],
    pub(crate) cause: &'static str,
}

/// One process.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    pub(crate) kind: Kind,
    /// Whether it can be written to.
    pub(crate) open: bool,
    /// What it has said, or is about to say.
    pub(crate) output: Vec<u8>,
    /// Whether it was ended before it could say all of it.
    pub(crate) cut: bool,
    pub(crate) end: Option<End>,
}

const EXITED: &str = "exit";
pub(crate) const ACCEPTED: &str = "accepted";
const CLOSED: &str = "stdinClosed";
const UNKNOWN: &str = "unknownProcess";

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) slots: [Option<Process>; SLOTS],
}

impl Model {
    /// Whether it is started; an id that was used is taken.
    pub(crate) fn start(&mut self, slot: usize, kind: Kind) -> bool {
        if self.slots[slot].is_some() {
            return false;
        }
        let output: &[u8] = match kind {
            Kind::Quick => b"quick",
            Kind::Stubborn => b"up\n",
            Kind::Cat | Kind::Deaf | Kind::Terminal => b"",
        };
        let end = (kind == Kind::Quick).then_some(End { codes: &[3], cause: EXITED });
        let open = matches!(kind, Kind::Cat | Kind::Deaf);
        self.slots[slot] = Some(Process { kind, open, output: output.to_vec(), cut: false, end });
        true
    }

    /// The status.
    pub(crate) fn write(&mut self, slot: usize, bytes: &[u8]) -> &'static str {
        match &mut self.slots[slot] {
            None => UNKNOWN,
            Some(process) if !process.open => CLOSED,
            Some(process) => {
                if process.kind == Kind::Cat {
                    process.output.extend(bytes);
                }
                ACCEPTED
            }
        }
    }

    pub(crate) fn close_stdin(&mut self, slot: usize) -> &'static str {
        match &mut self.slots[slot] {
            None => UNKNOWN,
            Some(process) if !process.open => CLOSED,
            Some(process) => {
                process.open = false;
                if process.kind == Kind::Cat {
                    process.end = Some(End { codes: &[0], cause: EXITED });
                }
                ACCEPTED
            }
        }
    }

    pub(crate) fn interrupt(&mut self, slot: usize) {
        if let Some(process) = self.running(slot)
            && process.kind != Kind::Stubborn
        {
            process.stop(End { codes: &[130], cause: "signal" });
        }
    }

    /// Whether it was running.
    pub(crate) fn terminate(&mut self, slot: usize) -> bool {
        let Some(process) = self.running(slot) else { return false };
        let codes: &[i64] = if process.kind == Kind::Stubborn { &[137] } else { &[137, 143] };
        process.stop(End { codes, cause: "terminated" });
        true
    }

    /// The code of the error.
    pub(crate) fn resize(&self, slot: usize, rows: u16) -> Result<(), i64> {
        match &self.slots[slot] {
            _ if rows == 0 => Err(-32602),
            Some(process) if process.kind == Kind::Terminal => Ok(()),
            _ => Err(-32600),
        }
    }

    fn running(&mut self, slot: usize) -> Option<&mut Process> {
        self.slots[slot].as_mut().filter(|process| process.end.is_none())
    }
}

impl Process {
    fn stop(&mut self, end: End) {
        self.end = Some(end);
        self.open = false;
        self.cut = true;
    }
}
