//! What the machine gives without a server: a spawned process, a pipe, a terminal.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use nix::pty::openpty;

use crate::process::{TRUE, own_cpu};

/// As much as a server reads at once.
const CHUNK: usize = 64 << 10;

/// Time and processor time of one run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) wall: f64,
    pub(crate) cpu: f64,
}

/// A process with three pipes, started and waited for. std takes `posix_spawn` where nothing is to be done between fork and exec.
pub(crate) fn spawn() -> anyhow::Result<Duration> {
    let begin = Instant::now();
    let mut child =
        Command::new(TRUE).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    child.wait()?;
    Ok(begin.elapsed())
}

/// What a command writes, through a pipe that is read in a loop.
pub(crate) fn pipe(argv: &[&str]) -> anyhow::Result<Cost> {
    let begin = Instant::now();
    let mut command = Command::new(argv[0]);
    command.args(&argv[1..]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let stdout = child.stdout.take().context("its stdout")?;
    let cpu = drain(stdout)?;
    child.wait()?;
    Ok(Cost { wall: begin.elapsed().as_secs_f64(), cpu })
}

/// The same through a terminal.
pub(crate) fn pty(argv: &[&str]) -> anyhow::Result<Cost> {
    let begin = Instant::now();
    let terminal = openpty(None, None)?;
    let slave = || anyhow::Ok(Stdio::from(terminal.slave.try_clone()?));
    let mut command = Command::new(argv[0]);
    command.args(&argv[1..]).stdin(slave()?).stdout(slave()?).stderr(slave()?);
    let mut child = command.spawn()?;
    // Else it would never end: these are ends of the command's side.
    drop((command, terminal.slave));
    let cpu = drain(File::from(terminal.master))?;
    child.wait()?;
    Ok(Cost { wall: begin.elapsed().as_secs_f64(), cpu })
}

/// Reads to the end; the processor time that it took.
fn drain(mut from: impl Read) -> anyhow::Result<f64> {
    let begin = own_cpu()?;
    let mut buffer = vec![0; CHUNK];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            // How a terminal ends that nobody has open any more.
            Err(e) if e.raw_os_error() == Some(nix::libc::EIO) => break,
            Err(e) => return Err(e.into()),
        }
    }
    Ok((own_cpu()? - begin).as_secs_f64())
}
