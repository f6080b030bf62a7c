//! The terminal that `run --tty` is started in: raw while the command has it, as it was afterwards.

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use serde_json::{Value, json};

/// The settings to go back to. Dropping it goes back.
pub(super) struct Terminal(Termios);

impl Terminal {
    /// Every key goes to the command, Ctrl-C too. `None` where stdin is no terminal.
    pub(super) fn raw() -> Option<Terminal> {
        let settings = tcgetattr(std::io::stdin()).ok()?;
        let mut raw = settings.clone();
        raw.make_raw();
        tcsetattr(std::io::stdin(), OptionalActions::Now, &raw).ok()?;
        Some(Terminal(settings))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A terminal that is gone needs no settings.
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Flush, &self.0);
    }
}

/// The size as the protocol has it; `None` where stdin is no terminal, or one that does not know its size.
pub(super) fn size() -> Option<Value> {
    let size = tcgetwinsize(std::io::stdin()).ok()?;
    (size.ws_row > 0 && size.ws_col > 0).then(|| json!({ "rows": size.ws_row, "cols": size.ws_col }))
}
