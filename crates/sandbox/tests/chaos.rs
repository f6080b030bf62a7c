//! The server, or a shim, is killed at random moments of launches: no process may be left, and no temporary directory.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use common::processes::alive;
use common::{BASE, World, drain, read_until, wait};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use sidecar_sandbox::{Io, Profile, Request};

/// Tells a copy of this test program that it is the server to be killed: the directory for its temporary files.
const TMP: &str = "CHAOS_TMP";
/// The Landlock ABI that it is to use at most.
const MAX_ABI: &str = "CHAOS_MAX_ABI";

/// A command with a grandchild that left its session, all of them bearing the mark in their command lines.
fn script(mark: &str) -> String {
    format!("setsid sh -c 'sleep 600; : {mark}' & sh -c 'sleep 600; : {mark}' & wait; : {mark}")
}

/// The last argument: it is in the command line of the server and, as they share its memory, of its shims.
fn own_mark() -> String {
    std::env::args().next_back().unwrap_or_default()
}

/// Not a test of its own: what the server of [`a_killed_server_leaves_nothing`] does until it is killed.
#[test]
fn server_role() {
    let Ok(tmp) = std::env::var(TMP) else { return };
    let max_abi = std::env::var(MAX_ABI).ok().and_then(|abi| abi.parse().ok());
    let world = World::with(|o| {
        o.roots.tmp = tmp.into();
        o.max_abi = max_abi;
    });
    let script = script(&own_mark());
    loop {
        // A profile with a private temporary directory.
        let launched =
            world.launch(&Request::Profile(Profile::ReadOnly), world.command(&["sh", "-c", &script]));
        println!("launched");
        // The next launch begins while this one's tree lives; it is never waited for.
        std::mem::forget(launched.unwrap());
    }
}

fn kill_servers(max_abi: Option<u32>, rounds: u32) {
    let tmp = tempfile::Builder::new().prefix("chaos-").tempdir_in("/var/tmp").unwrap();
    let worlds = tempfile::Builder::new().prefix("chaos-").tempdir_in("/var/tmp").unwrap();
    let left_something = AtomicBool::new(false);
    let mut runner =
        TestRunner::new(Config { cases: rounds, failure_persistence: None, ..Config::default() });
    let moments = (0usize..4, 0usize..3000);
    let outcome = runner.run(&moments, |(launches, turns)| {
        let mark = format!("chaos-{}-{launches}-{turns}", std::process::id());
        let mut server = Command::new(std::env::current_exe().unwrap());
        server
            .args(["--exact", "server_role", "--nocapture", &mark])
            .env(TMP, tmp.path())
            .env(BASE, worlds.path());
        if let Some(abi) = max_abi {
            server.env(MAX_ABI, abi.to_string());
        }
        let mut server = server.stdout(Stdio::piped()).spawn().unwrap();
        // Open until the end: the server is to be killed, not to die of a broken pipe.
        let mut lines = BufReader::new(server.stdout.take().unwrap()).lines().map_while(Result::ok);
        let seen = lines.by_ref().filter(|l| l.contains("launched")).take(launches).count();
        // Some moment of the next launch.
        for _ in 0..turns {
            std::thread::yield_now();
        }
        server.kill().unwrap();
        server.wait().unwrap();
        drop(lines);
        prop_assert_eq!(seen, launches, "the control: it launches");
        // Its shims notice by themselves; the runner's time limit is what ends this where they do not.
        while !alive(&mark).is_empty() {
            std::thread::yield_now();
        }
        left_something.fetch_or(entries(tmp.path()) > 0, Relaxed);
        Ok(())
    });
    outcome.unwrap();
    // A killed server cannot remove its directories; the next one does.
    assert!(left_something.into_inner(), "the control: something was left");
    drop(World::with(|o| o.roots.tmp = tmp.path().to_owned()));
    assert_eq!(entries(tmp.path()), 0);
}

fn entries(dir: &Path) -> usize {
    std::fs::read_dir(dir).unwrap().count()
}

#[test]
fn a_killed_server_leaves_nothing() {
    kill_servers(None, 100);
}

#[test]
fn a_killed_server_leaves_nothing_without_scopes() {
    kill_servers(Some(5), 100);
}

/// The shims of this process: its children by the name of a launcher thread, or by their own.
fn shims() -> HashSet<i32> {
    let parent = std::process::id().to_string();
    let stats = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let is_child = stat.rsplit_once(") ")?.1.split(' ').nth(1)? == parent;
        let name = std::fs::read_to_string(entry.path().join("comm")).ok()?;
        (is_child && ["launch", "sidecar-shim"].iter().any(|n| name.starts_with(n))).then_some(pid)
    });
    stats.collect()
}

/// Runs something when it goes out of scope.
struct Finally<F: Fn()>(F);

impl<F: Fn()> Drop for Finally<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

fn kill_shims(max_abi: Option<u32>) {
    let tmp = tempfile::Builder::new().prefix("chaos-").tempdir_in("/var/tmp").unwrap();
    let world = World::with(|o| {
        o.roots.tmp = tmp.path().to_owned();
        o.max_abi = max_abi;
    });
    let mark = format!("shims-{}-{}", max_abi.unwrap_or(0), std::process::id());
    let done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let killer = threads.spawn(|| {
            let mut killed = 0;
            while !done.load(Relaxed) {
                for shim in shims() {
                    killed += usize::from(kill(Pid::from_raw(shim), Signal::SIGKILL).is_ok());
                }
            }
            killed
        });
        // Also where an assertion fails: the killer would go on for ever.
        let finished = Finally(|| done.store(true, Relaxed));
        for round in 0..100 {
            // Of its own: a launch that failed is still being ended when the next one begins.
            let mark = format!("{mark}-{round}-");
            let command = world.command(&["sh", "-c", &script(&mark)]);
            if let Ok((child, io)) = world.launch(&Request::Profile(Profile::ReadOnly), command) {
                wait(child.tree_event());
                child.reap();
                drop(io);
                assert_eq!(alive(&mark), Vec::<i32>::new());
            }
        }
        drop(finished);
        assert!(killer.join().unwrap() >= 100, "the control: shims were killed");
    });
    // A launch that failed is ended on a thread of its own.
    while !alive(&mark).is_empty() {
        std::thread::yield_now();
    }
    drop(world);
    while entries(tmp.path()) > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn a_killed_shim_leaves_nothing() {
    kill_shims(None);
    kill_shims(Some(5));
}

/// Without the scope, and without a shim that reaps them all, nothing but the tag finds a process that is another one at
/// each look.
#[test]
fn a_chain_of_forks_does_not_outrun_the_tag() {
    const CHAIN: &str =
        "my $n = 0; $| = 1; print 'begun'; while ($n++ < 50000) { exit 0 if fork() } sleep 600";
    let world = World::with(|o| o.max_abi = Some(5));
    let before = shims();
    for round in 0..5 {
        let mark = format!("chain-{}-{round}-", std::process::id());
        let command = world.command(&["perl", "-e", CHAIN, &mark]);
        let (child, io) = world.launch(&Request::Default, command).unwrap();
        let Io::Pipes { stdout, .. } = io else { panic!("pipes expected") };
        read_until(&stdout, "begun");
        for shim in shims().difference(&before) {
            kill(Pid::from_raw(*shim), Signal::SIGKILL).unwrap();
        }
        wait(child.tree_event());
        child.reap();
        assert_eq!(alive(&mark), Vec::<i32>::new());
        // The pipe has no writer any more, whoever was between two processes at that look.
        drain(stdout);
    }
}
