//! The one that is attacked: a launch of its own, or an ordinary process that stands for the server in the controls. It
//! says who it is, answers each line, and tells each SIGURG that reaches it.

use std::io::{BufRead as _, Write as _};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

use crate::{Outcome, minus, sys};

static SIGNALS: AtomicUsize = AtomicUsize::new(0);
/// linux/prctl.h: "Yama".
const PR_SET_PTRACER: usize = 0x5961_6d61;

pub(crate) fn run(attack: &str, rest: &[&str]) -> Option<Outcome> {
    match (attack, rest) {
        ("victim", [name]) => Some(victim(name)),
        _ => None,
    }
}

extern "C" fn count(_: i32) {
    SIGNALS.fetch_add(1, SeqCst);
}

fn victim(name: &str) -> Outcome {
    let action = SigAction::new(SigHandler::Handler(count), SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: the handler adds to an atomic and does nothing else.
    unsafe { sigaction(Signal::SIGURG, &action) }?;
    // So that Yama does not stand in the way of the controls; in a launch the sandbox refuses it.
    let _ = sys(libc::SYS_prctl, &[PR_SET_PTRACER, minus(-1)]);
    use std::os::linux::net::SocketAddrExt as _;
    let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
    let _listener = std::os::unix::net::UnixListener::bind_addr(&address)?;
    let mut out = std::io::stdout();
    writeln!(out, "{} {}", std::process::id(), nix::unistd::getppid())?;
    for line in std::io::stdin().lock().lines() {
        writeln!(out, "{} {}", line?, SIGNALS.load(SeqCst))?;
    }
    Ok(())
}
