//! Trees that do not want to end, and what a launch can do to the places that the server makes for it. Bounded: at most
//! [`MOST`] processes at once, and each waits without work until it is killed.

use std::fs;
use std::io::Write as _;

use nix::unistd::{ForkResult, fork, setsid};

use crate::{Outcome, sys};

/// Most processes of one attack.
const MOST: usize = 200;
/// Length of a chain of processes that each start the next and end.
const CHAIN: usize = 20_000;
const NSIG: i32 = 64;

/// The last word of each is a mark by which the runner finds its processes; they bear it in their command lines.
pub(crate) fn run(attack: &str, rest: &[&str]) -> Option<Outcome> {
    Some(match (attack, rest) {
        ("daemon", [_mark]) => daemon(),
        ("bomb", [count, _mark]) => bomb(count.parse::<usize>().ok()?.min(MOST)),
        ("chain", [_mark]) => chain().and_then(|()| stay()),
        ("ignore-signals", [_mark]) => {
            for signal in 1..=NSIG {
                let ignored = [1usize, 0, 0, 0];
                let _ = sys(libc::SYS_rt_sigaction, &[signal as usize, ignored.as_ptr() as usize, 0, 8]);
            }
            stay()
        }
        ("leader-exits", [_mark]) => {
            std::thread::spawn(stay);
            // The calling thread alone: the process lives on without its leader.
            let _ = sys(libc::SYS_exit, &[0]);
            Ok(())
        }
        ("stop-shim", [_mark]) => signal_shim(libc::SIGSTOP),
        ("kill-shim", [_mark]) => signal_shim(libc::SIGKILL),
        ("chain-kill-shim", [_mark]) => chain().and_then(|()| signal_shim(libc::SIGKILL)),
        ("deep-tree", [depth]) => deep_tree(depth.parse().ok()?),
        ("closed-tree", []) => closed_tree(),
        ("take-tmp-base", [base]) => take_tmp_base(base),
        ("tell-tmp", []) => {
            println!("{}", std::env::var("TMPDIR").unwrap_or_default());
            Ok(())
        }
        _ => return None,
    })
}

/// Tells that the attack is under way, and waits to be killed.
fn stay() -> Outcome {
    println!("ok");
    std::io::stdout().flush()?;
    wait_for_ever()
}

fn wait_for_ever() -> ! {
    loop {
        let _ = sys(libc::SYS_ppoll, &[0, 0, 0, 0, 8]);
    }
}

fn in_child(act: impl FnOnce()) -> Outcome {
    // SAFETY: this program has one thread here.
    if let ForkResult::Child = unsafe { fork() }? {
        act();
        let _ = sys(libc::SYS_exit_group, &[0]);
    }
    Ok(())
}

/// Leaves its parent, its group and its session.
fn daemon() -> Outcome {
    in_child(|| {
        let _ = setsid();
        let _ = in_child(|| wait_for_ever());
    })
}

/// Many of them, every second one a daemon.
fn bomb(count: usize) -> Outcome {
    for n in 0..count {
        in_child(|| {
            let _ = setsid();
            if n % 2 == 0 {
                let _ = in_child(|| wait_for_ever());
            } else {
                wait_for_ever();
            }
        })?;
    }
    stay()
}

/// Never the same process for long.
fn chain() -> Outcome {
    in_child(|| {
        for _ in 0..CHAIN {
            // SAFETY: as above.
            match unsafe { fork() } {
                Ok(ForkResult::Child) => {
                    let _ = setsid();
                }
                _ => return,
            }
        }
        // Whoever was never caught is seen.
        wait_for_ever();
    })
}

fn signal_shim(signal: i32) -> Outcome {
    let shim = nix::unistd::getppid().as_raw();
    match sys(libc::SYS_kill, &[shim as usize, signal as usize]) {
        Ok(_) => stay(),
        Err(e) => {
            println!("{:?}", nix::errno::Errno::from_raw(e.raw_os_error().unwrap_or(0)));
            std::io::stdout().flush()?;
            wait_for_ever()
        }
    }
}

/// More directories in each other than a recursion bears.
fn deep_tree(depth: usize) -> Outcome {
    std::env::set_current_dir(std::env::var_os("TMPDIR").unwrap_or_else(|| "/tmp".into()))?;
    for _ in 0..depth {
        fs::create_dir("d")?;
        std::env::set_current_dir("d")?;
    }
    Ok(())
}

/// Directories that their owner may not list, one with something in it, and may not enter.
fn closed_tree() -> Outcome {
    use std::os::unix::fs::DirBuilderExt as _;
    std::env::set_current_dir(std::env::var_os("TMPDIR").unwrap_or_else(|| "/tmp".into()))?;
    // chmod may be denied: made so.
    fs::DirBuilder::new().mode(0o300).create("unlisted")?;
    fs::write("unlisted/file", "x")?;
    fs::DirBuilder::new().mode(0o000).create("closed")
}

/// Puts a file where the server keeps the private directories of its launches.
fn take_tmp_base(base: &str) -> Outcome {
    fs::rename(base, format!("{base}-taken"))?;
    fs::write(base, "taken")
}
