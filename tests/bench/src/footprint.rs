//! What the server takes at rest, per connection, per process; how soon it listens; what a reader that stalls costs.

use std::thread;
use std::time::{Duration, Instant};

use e2e::Server;

use crate::bench::Scale;
use crate::memory::pss;
use crate::process::{Launch, TRUE};
use crate::stats::{Measured, median, of, ratio};
use crate::subject::{self, Subject as _};
use crate::table::Bound::AtMost;
use crate::table::Row;
use crate::wire::{Acks, Client};

const KB: f64 = 1e3;
const MB: f64 = 1e6;

/// How long a reader stalls.
const STALL: Duration = Duration::from_secs(10);

/// A command that lives as long as its session.
const SLEEP: [&str; 2] = ["/bin/sleep", "100000"];

/// To be run while no other server runs: programs share their pages, which halves each one's share.
pub(crate) fn rows(scale: Scale) -> Vec<Row> {
    let [idle, connection, process] = match at_rest(scale) {
        Ok(figures) => figures.map(Ok),
        Err(why) => [0; 3].map(|_| Err(anyhow::anyhow!("{why:#}"))),
    };
    vec![
        Row::in_unit("idle PSS of the server", "MB", AtMost(8.0, 4.0), idle),
        Row::in_unit("PSS per idle connection", "KB", AtMost(24.0, 10.0), connection),
        Row::in_unit("PSS per live process, shim included", "KB", AtMost(48.0, 16.0), process),
        Row::in_unit("exec → listening", "ms", AtMost(20.0, 5.0), listening(scale)),
        Row::in_unit(
            "growth under a reader stalled for 10 s during a flood",
            "KB",
            AtMost(2000.0, 512.0),
            stalled(scale),
        ),
        Row::ratio(
            "launch with 500 live processes and 500 connections ÷ with none",
            AtMost(1.3, 1.1),
            crowded(scale),
        ),
    ]
}

/// Alone, per connection, per process: of several servers, since one is as its allocator happened to be.
fn at_rest(scale: Scale) -> anyhow::Result<[Measured; 3]> {
    let [mut idle, mut connection, mut process] = [const { Vec::new() }; 3];
    let count = scale.amount(200);
    for _ in 0..scale.rounds(3) {
        let server = subject::ours()?;
        let alone = pss(server.pid())?;
        let mut clients = Vec::new();
        for _ in 0..count {
            clients.push(server.client(Acks::Ordinary)?);
        }
        let connected = pss(server.pid())?;
        // All of one connection: what a second connection takes is in the figure before.
        let workspace = server.workspace();
        for _ in 0..count {
            Launch::plain(&SLEEP, &workspace).start(&mut clients[0])?;
        }
        let running = pss(server.pid())?;
        idle.push(alone / MB);
        connection.push((connected - alone) / count as f64 / KB);
        process.push((running - connected) / count as f64 / KB);
    }
    Ok([idle, connection, process].map(|values| of(&values, median)))
}

fn listening(scale: Scale) -> anyhow::Result<Measured> {
    let mut times = Vec::new();
    for _ in 0..scale.rounds(20) {
        let scratch = e2e::Scratch::new();
        let begin = Instant::now();
        // It returns once the server has printed where it listens.
        let server = Server::builder().scratch(scratch).start();
        times.push(begin.elapsed().as_secs_f64() * 1e3);
        drop(server);
    }
    Ok(of(&times, median))
}

/// What is kept of the output is part of it: nothing was written before.
fn stalled(scale: Scale) -> anyhow::Result<Measured> {
    let stall = if scale.rounds(10) == 10 { STALL } else { Duration::from_millis(100) };
    let mut growths = Vec::new();
    for _ in 0..scale.rounds(3) {
        let server = subject::ours()?;
        let workspace = server.workspace();
        let mut client = server.client(Acks::Ordinary)?;
        Launch::plain(&[TRUE], &workspace).to_exit(&mut client)?;
        let before = pss(server.pid())?;
        Launch::plain(&["/bin/dd", "if=/dev/zero", "bs=64K", "count=16384"], &workspace)
            .start(&mut client)?;
        let begin = Instant::now();
        let mut most = before;
        while begin.elapsed() < stall {
            most = most.max(pss(server.pid())?);
            #[expect(clippy::disallowed_methods, reason = "the stall is what is measured")]
            thread::sleep(stall / 20);
        }
        growths.push((most - before) / KB);
    }
    Ok(of(&growths, median))
}

fn crowded(scale: Scale) -> anyhow::Result<Measured> {
    let (empty, full) = (subject::ours()?, subject::ours()?);
    let workspace = full.workspace();
    let mut crowd: Vec<Client> = Vec::new();
    for _ in 0..scale.amount(500) {
        let mut client = full.client(Acks::Ordinary)?;
        Launch::plain(&SLEEP, &workspace).start(&mut client)?;
        crowd.push(client);
    }
    let (mut top, mut bottom) = (Vec::new(), Vec::new());
    let mut among_many = full.client(Acks::Ordinary)?;
    let mut alone = empty.client(Acks::Ordinary)?;
    let place = empty.workspace();
    for _ in 0..scale.rounds(300) {
        top.push(Launch::plain(&[TRUE], &workspace).to_exit(&mut among_many)?.as_secs_f64());
        bottom.push(Launch::plain(&[TRUE], &place).to_exit(&mut alone)?.as_secs_f64());
    }
    Ok(ratio(&top, &bottom))
}
