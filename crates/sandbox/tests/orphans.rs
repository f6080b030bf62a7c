//! The duty of a PID 1: orphans are reaped, launches keep their exits. Alone in its process, which becomes a subreaper.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::process::{Command, Stdio};

use common::{World, finish, wait};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use sidecar_sandbox::Request;

#[test]
fn orphans_are_reaped_and_launches_are_not() {
    // What a PID 1 is by itself: the parent of every orphan.
    nix::sys::prctl::set_child_subreaper(true).unwrap();
    let world = World::new();
    let (child, io) = world.launch(&Request::Default, world.command(&["sh", "-c", "exit 7"])).unwrap();
    wait(child.tree_event());
    let parent =
        Command::new("sh").args(["-c", "sleep 600 >/dev/null & echo $!"]).stdout(Stdio::piped()).spawn();
    let printed = parent.unwrap().wait_with_output().unwrap().stdout;
    let orphan = Pid::from_raw(common::lossy(&printed).trim().parse().unwrap());
    assert_eq!(world.sandbox.reap_orphans(), 0, "it lives");
    kill(orphan, Signal::SIGKILL).unwrap();
    waitid(Id::Pid(orphan), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT).unwrap();
    assert_eq!(world.sandbox.reap_orphans(), 1);
    // The launch's shim had ended all the while, and its exit is still there.
    assert_eq!(finish(child, io).exit.code, 7);
}
