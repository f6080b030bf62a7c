//! Output in bulk: pipes, terminals, the processor time that it costs, and the gateway in between.

use std::time::Instant;

use anyhow::ensure;
use e2e::Server;

use crate::baseline::{self, Cost};
use crate::bench::Bench;
use crate::process::{Launch, TRUE, cpu};
use crate::stats::{Measured, ratio};
use crate::subject::{Between, Subject as _};
use crate::table::Bound::{AtLeast, AtMost};
use crate::table::Row;
use crate::wire::{Acks, Client};

const MIB: usize = 1 << 20;

/// Several runs of one amount of output.
#[derive(Debug, Default)]
struct Runs {
    /// Bytes per second.
    rate: Vec<f64>,
    /// Seconds of processor time.
    cpu: Vec<f64>,
}

impl Runs {
    fn push(&mut self, mib: usize, cost: Cost) {
        self.rate.push(mib as f64 / cost.wall);
        self.cpu.push(cost.cpu);
    }
}

pub(crate) fn rows(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let (raw, ours) = against_pipe(bench)?;
    let stock = against_stock(bench);
    let of_stock = |figure: fn(&(Runs, Runs)) -> Measured| {
        stock.as_ref().map(figure).map_err(|why| anyhow::anyhow!("{why:#}"))
    };
    let (launch, throughput) = through_gateway(bench)?;
    Ok(vec![
        Row::ratio(
            "1 GiB through pipes → WebSocket → decoding client ÷ raw pipe",
            AtLeast(0.45, 0.7),
            Ok(ratio(&ours.rate, &raw.rate)),
        ),
        Row::ratio(
            "server CPU per GiB of that ÷ raw pipe reader's",
            AtMost(6.0, 4.0),
            Ok(ratio(&ours.cpu, &raw.cpu)),
        ),
        Row::ratio(
            "throughput ÷ stock server's",
            AtLeast(3.0, 5.0),
            of_stock(|(ours, stock)| ratio(&ours.rate, &stock.rate)),
        ),
        Row::ratio(
            "server CPU per GiB ÷ stock server's",
            AtMost(0.25, 1.0 / 7.0),
            of_stock(|(ours, stock)| ratio(&ours.cpu, &stock.cpu)),
        ),
        Row::ratio("PTY output ÷ raw PTY", AtLeast(0.8, 0.95), against_pty(bench)),
        Row::ratio("launch through the gateway ÷ direct", AtMost(1.5, 1.2), Ok(launch)),
        Row::ratio("throughput through the gateway ÷ direct", AtLeast(0.6, 0.8), Ok(throughput)),
    ])
}

/// A command that writes zeros, in blocks of 64 KiB.
fn zeros(mib: usize) -> [String; 4] {
    ["/bin/dd".into(), "if=/dev/zero".into(), "bs=64K".into(), format!("count={}", mib * 16)]
}

fn words(argv: &[String]) -> Vec<&str> {
    argv.iter().map(String::as_str).collect()
}

/// One flood, decoded; what it took, and what it cost the server with this pid.
fn flood(server: u32, client: &mut Client, launch: &Launch<'_>, mib: usize) -> anyhow::Result<Cost> {
    let before = cpu(server)?;
    let begin = Instant::now();
    // The stock server's response may come behind the first output.
    launch.request(client)?;
    let bytes = client.decode_output()?;
    let wall = begin.elapsed().as_secs_f64();
    // What dd says of itself comes on top.
    ensure!(bytes >= mib * MIB, "{bytes} bytes came");
    Ok(Cost { wall, cpu: (cpu(server)? - before).as_secs_f64() })
}

fn against_pipe(bench: &Bench) -> anyhow::Result<(Runs, Runs)> {
    let mib = bench.scale.amount(1024);
    let (argv, workspace) = (zeros(mib), bench.ours.workspace());
    let argv = words(&argv);
    let mut client = bench.ours.client(Acks::Ordinary)?;
    let (mut raw, mut ours) = (Runs::default(), Runs::default());
    for _ in 0..bench.scale.rounds(7) {
        raw.push(mib, baseline::pipe(&argv)?);
        ours.push(mib, flood(bench.ours.pid(), &mut client, &Launch::plain(&argv, &workspace), mib)?);
    }
    Ok((raw, ours))
}

fn against_stock(bench: &Bench) -> anyhow::Result<(Runs, Runs)> {
    let stock = bench.stock()?;
    let mib = bench.scale.amount(128);
    let (argv, workspace) = (zeros(mib), bench.ours.workspace());
    let argv = words(&argv);
    let launch = Launch::plain(&argv, &workspace);
    let mut client = bench.ours.client(Acks::Quick)?;
    let mut stock_client = stock.client(Acks::Quick)?;
    let (mut ours, mut theirs) = (Runs::default(), Runs::default());
    for _ in 0..bench.scale.rounds(5) {
        theirs.push(mib, flood(stock.pid(), &mut stock_client, &launch, mib)?);
        ours.push(mib, flood(bench.ours.pid(), &mut client, &launch, mib)?);
    }
    Ok((ours, theirs))
}

fn against_pty(bench: &Bench) -> anyhow::Result<Measured> {
    let mib = bench.scale.amount(128);
    let (argv, workspace) = (zeros(mib), bench.ours.workspace());
    let argv = words(&argv);
    let launch = Launch { tty: true, ..Launch::plain(&argv, &workspace) };
    let mut client = bench.ours.client(Acks::Ordinary)?;
    let (mut raw, mut ours) = (Runs::default(), Runs::default());
    for _ in 0..bench.scale.rounds(5) {
        raw.push(mib, baseline::pty(&argv)?);
        ours.push(mib, flood(bench.ours.pid(), &mut client, &launch, mib)?);
    }
    Ok(ratio(&ours.rate, &raw.rate))
}

/// A launch, and throughput.
fn through_gateway(bench: &Bench) -> anyhow::Result<(Measured, Measured)> {
    let server: &Server = &bench.ours;
    let gateway = Between::start(server);
    let workspace = server.workspace();
    let mut direct = server.client(Acks::Ordinary)?;
    let mut through = gateway.client(Acks::Ordinary)?;
    let nothing = Launch::plain(&[TRUE], &workspace);
    let (mut top, mut bottom) = (Vec::new(), Vec::new());
    for _ in 0..bench.scale.rounds(300) {
        bottom.push(nothing.to_exit(&mut direct)?.as_secs_f64());
        top.push(nothing.to_exit(&mut through)?.as_secs_f64());
    }
    let mib = bench.scale.amount(512);
    let argv = zeros(mib);
    let argv = words(&argv);
    let (mut ours, mut between) = (Runs::default(), Runs::default());
    for _ in 0..bench.scale.rounds(5) {
        ours.push(mib, flood(server.pid(), &mut direct, &Launch::plain(&argv, &workspace), mib)?);
        between.push(mib, flood(server.pid(), &mut through, &Launch::plain(&argv, &workspace), mib)?);
    }
    Ok((ratio(&top, &bottom), ratio(&between.rate, &ours.rate)))
}
