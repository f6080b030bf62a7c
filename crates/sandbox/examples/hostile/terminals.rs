//! What a launch has for itself, its terminal and its private directory, and what it may do with another's.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;

use crate::files::scratch;
use crate::{Outcome, sys};

pub(crate) fn run(attack: &str, rest: &[&str]) -> Option<Outcome> {
    Some(match (attack, rest) {
        ("keep", []) => keep(),
        ("own-terminal", []) => own_terminal().map(drop),
        ("own-tmp", []) => {
            let file = scratch().join(format!("hostile-own-{}", std::process::id()));
            fs::write(&file, "content").and_then(|()| fs::remove_file(file))
        }
        ("open-terminal", [path]) => open(path, true).map(drop),
        ("ioctl-terminal", [path]) => open(path, false).and_then(|terminal| size(&terminal)),
        _ => return None,
    })
}

/// One to be attacked: tells its private directory, where it has one, and its terminal, and waits to be killed.
fn keep() -> Outcome {
    let private = std::env::var("TMPDIR").unwrap_or_default();
    if !private.is_empty() {
        fs::write(format!("{private}/file"), "content")?;
    }
    println!("{private} {}", own_terminal()?);
    io::stdout().flush()?;
    loop {
        let _ = sys(libc::SYS_ppoll, &[0, 0, 0, 0, 8]);
    }
}

/// Its path: what stdin is, opened once more.
fn own_terminal() -> io::Result<String> {
    let path = fs::read_link("/proc/self/fd/0")?.display().to_string();
    size(&open(&path, true)?)?;
    Ok(path)
}

/// As a place to read from or to write to, not as its own controlling terminal.
fn open(path: &str, write: bool) -> io::Result<File> {
    OpenOptions::new().read(true).write(write).custom_flags(libc::O_NOCTTY).open(path)
}

fn size(terminal: &File) -> Outcome {
    let mut size = [0u16; 4];
    let args = [terminal.as_raw_fd() as usize, libc::TIOCGWINSZ as usize, size.as_mut_ptr() as usize];
    sys(libc::SYS_ioctl, &args).map(drop)
}
