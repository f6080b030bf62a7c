//! Launches: inside the daemon, over the wire, many at once, against the stock server.

use std::collections::HashMap;
use std::thread;
use std::time::Instant;

use serde_json::Value;

use crate::baseline;
use crate::bench::Bench;
use crate::process::{Launch, TRUE};
use crate::stats::{Measured, median, ratio, ratio_of};
use crate::subject::{Subject as _, sandboxed};
use crate::table::Bound::{AtLeast, AtMost, Told};
use crate::table::Row;
use crate::wire::{Acks, Client};
use crate::within::Daemon;

/// Launches in flight.
const WIDTH: usize = 32;

/// Memory of the large daemon and of the small one, MiB.
const BALLAST: [usize; 2] = [500, 10];

pub(crate) fn rows(bench: &Bench) -> Vec<Row> {
    let stock = |sandbox| against_stock(bench, sandbox);
    vec![
        Row::ratio(
            "sandboxed launch inside the daemon ÷ posix_spawn + pipes",
            AtMost(1.5, 1.2),
            within(bench),
        ),
        Row::ratio("the same at 500 MB RSS ÷ at 10 MB", AtMost(1.3, 1.1), ballast(bench)),
        Row::ratio(
            "start → exited over WebSocket, sandboxed ÷ posix_spawn + pipes",
            AtMost(2.2, 1.6),
            over_the_wire(bench),
        ),
        Row::ratio("launches/s at 32 concurrent ÷ posix_spawn at 32", AtLeast(0.5, 0.7), concurrent(bench)),
        Row::ratio("launch of the stock server, sandboxed ÷ ours", AtLeast(30.0, 50.0), stock(true)),
        Row::ratio("launch of the stock server without a sandbox ÷ ours, sandboxed", Told, stock(false)),
    ]
}

fn within(bench: &Bench) -> anyhow::Result<Measured> {
    let mut daemon = Daemon::start(BALLAST[1])?;
    daemon.round()?;
    let rounds = (0..bench.scale.rounds(500)).map(|_| daemon.round());
    let (spawns, launches): (Vec<_>, Vec<_>) =
        rounds.collect::<anyhow::Result<Vec<_>>>()?.into_iter().unzip();
    Ok(ratio(&launches, &spawns))
}

fn ballast(bench: &Bench) -> anyhow::Result<Measured> {
    let mut large = Daemon::start(BALLAST[0])?;
    let mut small = Daemon::start(BALLAST[1])?;
    large.round()?;
    small.round()?;
    let (mut top, mut bottom) = (Vec::new(), Vec::new());
    for _ in 0..bench.scale.rounds(300) {
        top.push(large.round()?.1);
        bottom.push(small.round()?.1);
    }
    Ok(ratio(&top, &bottom))
}

fn over_the_wire(bench: &Bench) -> anyhow::Result<Measured> {
    let workspace = bench.ours.workspace();
    let launch = Launch::plain(&[TRUE], &workspace);
    let mut client = bench.ours.client(Acks::Ordinary)?;
    launch.to_exit(&mut client)?;
    let (mut top, mut bottom) = (Vec::new(), Vec::new());
    for _ in 0..bench.scale.rounds(500) {
        bottom.push(baseline::spawn()?.as_secs_f64());
        top.push(launch.to_exit(&mut client)?.as_secs_f64());
    }
    Ok(ratio(&top, &bottom))
}

fn concurrent(bench: &Bench) -> anyhow::Result<Measured> {
    let count = bench.scale.amount(10 * WIDTH);
    let workspace = bench.ours.workspace();
    let launch = Launch::plain(&[TRUE], &workspace);
    let mut client = bench.ours.client(Acks::Ordinary)?;
    let (mut ours, mut plain) = (Vec::new(), Vec::new());
    for _ in 0..bench.scale.rounds(5) {
        plain.push(count as f64 / spawn_concurrently(count)?);
        ours.push(count as f64 / launch_concurrently(&launch, &mut client, count)?);
    }
    Ok(ratio(&ours, &plain))
}

/// Seconds for so many processes, a thread for each in flight.
fn spawn_concurrently(count: usize) -> anyhow::Result<f64> {
    let begin = Instant::now();
    thread::scope(|scope| {
        let share = |index: usize| count / WIDTH + usize::from(index < count % WIDTH);
        let spawning = |index| {
            let share = share(index);
            scope.spawn(move || (0..share).try_for_each(|_| baseline::spawn().map(drop)))
        };
        let threads: Vec<_> = (0..WIDTH).map(spawning).collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| anyhow::bail!("panicked")))
    })?;
    Ok(begin.elapsed().as_secs_f64())
}

/// Seconds for so many launches on one connection. Each that has ended makes room for the next.
fn launch_concurrently(launch: &Launch<'_>, client: &mut Client, count: usize) -> anyhow::Result<f64> {
    let begin = Instant::now();
    for _ in 0..count.min(WIDTH) {
        launch.request(client)?;
    }
    let (mut exited, mut closed) = (0, 0);
    let mut took = 0.0;
    while closed < count {
        let message = client.receive()?;
        if message.starts_with(br#"{"method":"process/exited""#) {
            exited += 1;
            took = begin.elapsed().as_secs_f64();
            if exited + WIDTH <= count {
                launch.request(client)?;
            }
        } else if message.starts_with(br#"{"method":"process/closed""#) {
            closed += 1;
        } else if let Ok(message) = serde_json::from_slice::<HashMap<String, Value>>(message) {
            anyhow::ensure!(!message.contains_key("error"), "{message:?}");
        }
    }
    Ok(took)
}

/// The request of a stock client, to both. Ours is sandboxed in any case.
fn against_stock(bench: &Bench, stock_sandboxed: bool) -> anyhow::Result<Measured> {
    let stock = bench.stock()?;
    let workspace = bench.ours.workspace();
    let sandbox = sandboxed(&workspace);
    let launch = |sandbox| Launch { sandbox, ..Launch::plain(&[TRUE], &workspace) };
    let ours_launch = launch(&sandbox);
    let stock_launch = launch(if stock_sandboxed { &sandbox } else { &Value::Null });
    let mut ours = bench.ours.client(Acks::Quick)?;
    let mut theirs = stock.client(Acks::Quick)?;
    ours_launch.to_exit(&mut ours)?;
    stock_launch.to_exit(&mut theirs)?;
    let (mut top, mut bottom) = (Vec::new(), Vec::new());
    for _ in 0..bench.scale.rounds(20) {
        top.push(stock_launch.to_exit(&mut theirs)?.as_secs_f64());
        // It is so much faster that one would be too few to tell.
        let several = (0..5).map(|_| Ok(ours_launch.to_exit(&mut ours)?.as_secs_f64()));
        bottom.push(median(&several.collect::<anyhow::Result<Vec<_>>>()?));
    }
    Ok(ratio_of(&top, &bottom, median))
}
