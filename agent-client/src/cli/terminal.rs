//! The terminal that agent-client runs in: its size, and raw mode, which is undone whatever happens.

use std::io;
use std::os::fd::AsFd;
use std::sync::{Mutex, Once, PoisonError};

use agent_client::protocol::process::Size;
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};

/// How the terminal was before raw mode; `None` while it is as it was. Global, for the panic hook.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// The size of the terminal, whichever of the three descriptors is one; 24×80 where none is.
pub(super) fn size() -> Size {
    size_of(io::stdout())
        .or_else(|| size_of(io::stderr()))
        .or_else(|| size_of(io::stdin()))
        .unwrap_or_default()
}

fn size_of(fd: impl AsFd) -> Option<Size> {
    let size = tcgetwinsize(fd).ok().filter(|size| size.ws_row > 0 && size.ws_col > 0)?;
    Some(Size { rows: size.ws_row, cols: size.ws_col })
}

/// Raw mode, for as long as this lives: keys go to the command as they are typed, Ctrl-C too.
///
/// A panic undoes it as well, also where panics abort. Signals need nothing of their own: those that can be caught are,
/// and lead to an ordinary end.
#[derive(Debug)]
pub(super) struct RawMode(());

impl RawMode {
    /// Enters it; `None` where stdin is no terminal.
    pub(super) fn enter() -> io::Result<Option<Self>> {
        static HOOK: Once = Once::new();
        let stdin = io::stdin();
        if !isatty(&stdin) {
            return Ok(None);
        }
        let before = tcgetattr(&stdin)?;
        let mut raw = before.clone();
        raw.make_raw();
        HOOK.call_once(|| {
            let report = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                restore();
                report(panic);
            }));
        });
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        let mode = Self(());
        tcsetattr(&stdin, OptionalActions::Now, &raw)?;
        Ok(Some(mode))
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        restore();
    }
}

fn restore() {
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(before) = before
        // Nobody is left to be told that the terminal is gone.
        && let Err(e) = tcsetattr(io::stdin(), OptionalActions::Now, &before)
    {
        tracing::debug!("the terminal's mode is not restored: {e}");
    }
}
