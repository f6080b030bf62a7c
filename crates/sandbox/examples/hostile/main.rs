//! A hostile command for the attack suite: `hostile ATTACK [WORD…]` tries one thing that a sandboxed command must not
//! be able to do, with raw system calls where a shell cannot, and prints one line: `ok`, or the name of the errno.
//!
//! It judges nothing: what was to be expected is the runner's business, which also takes the proof where the attack
//! aims at something, such as a listener or another process. It never does lasting harm where it succeeds: signals are
//! ignored ones, limits are set to what they are, and numbers of processes are bounded.
#![allow(unsafe_code, reason = "raw system calls are what it is for")]

mod api;
mod calls;
mod files;
mod network;
mod processes;
mod signals;
mod terminals;
mod tree;
mod victim;

use std::io;
use std::process::ExitCode;

use nix::errno::Errno;

/// How an attack went: `Ok` where it got through.
type Outcome = io::Result<()>;

/// A raw system call.
fn sys(nr: libc::c_long, args: &[usize]) -> io::Result<usize> {
    let mut all = [0usize; 6];
    for (slot, arg) in all.iter_mut().zip(args) {
        *slot = *arg;
    }
    let [a, b, c, d, e, f] = all;
    // SAFETY: pointers among the arguments lead to live locals of the caller; a failed attack changes nothing here.
    let ret = unsafe { libc::syscall(nr, a, b, c, d, e, f) };
    usize::try_from(ret).map_err(|_| io::Error::last_os_error())
}

/// The negative number as the register holds it.
const fn minus(number: i32) -> usize {
    number as isize as usize
}

/// A string with its NUL.
fn c(text: &str) -> Vec<u8> {
    [text.as_bytes(), b"\0"].concat()
}

fn run(attack: &str, rest: &[&str]) -> Option<Outcome> {
    files::run(attack, rest)
        .or_else(|| calls::run(attack, rest))
        .or_else(|| processes::run(attack, rest))
        .or_else(|| signals::run(attack, rest))
        .or_else(|| network::run(attack, rest))
        .or_else(|| terminals::run(attack, rest))
        .or_else(|| tree::run(attack, rest))
        .or_else(|| api::run(attack, rest))
        .or_else(|| victim::run(attack, rest))
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        [attack, rest @ ..] => run(attack, rest),
        [] => None,
    };
    match outcome {
        Some(Ok(())) => println!("ok"),
        Some(Err(e)) => match e.raw_os_error() {
            Some(errno) => println!("{:?}", Errno::from_raw(errno)),
            None => println!("{e}"),
        },
        None => {
            eprintln!("hostile: no such attack, or not with so many words: {words:?}");
            return ExitCode::from(64);
        }
    }
    ExitCode::SUCCESS
}
