//! Round trips: keys typed into a terminal, metadata of a file, and metadata beside a flood.

use std::fs;
use std::net::Shutdown;
use std::thread;
use std::time::Instant;

use e2e::client::encode;
use serde_json::{Value, json};

use crate::bench::Bench;
use crate::process::Launch;
use crate::stats::{Measured, percentile, ratio, ratio_of};
use crate::subject::{Subject as _, uri};
use crate::table::Bound::{AtMost, Told};
use crate::table::Row;
use crate::wire::{Acks, Client};

const NOT_THE_LIMIT: [f64; 2] = [0.7, 0.45];

pub(crate) fn rows(bench: &Bench) -> Vec<Row> {
    let bound = AtMost(NOT_THE_LIMIT[0], NOT_THE_LIMIT[1]);
    vec![
        Row::ratio("PTY echo ÷ stock server's (client with TCP_QUICKACK)", bound, echo(bench, Acks::Quick)),
        Row::ratio("PTY echo ÷ stock server's (ordinary client)", Told, echo(bench, Acks::Ordinary)),
        Row::ratio(
            "fs/getMetadata ÷ stock server's (client with TCP_QUICKACK)",
            bound,
            metadata(bench, Acks::Quick),
        ),
        Row::ratio(
            "fs/getMetadata ÷ stock server's (ordinary client)",
            Told,
            metadata(bench, Acks::Ordinary),
        ),
        Row::ratio(
            "p99 of fs/getMetadata in another session during a pipe flood ÷ quiet",
            AtMost(5.0, 2.0),
            beside_a_flood(bench, false),
        ),
        Row::ratio("the same during a terminal's flood ÷ quiet", Told, beside_a_flood(bench, true)),
        Row::ratio(
            "p99 of fs/getMetadata in the session of a pipe flood ÷ quiet",
            Told,
            within_a_flood(bench),
        ),
    ]
}

/// An open terminal whose line discipline echoes.
struct Terminal {
    client: Client,
    process: String,
    writes: u64,
}

impl Terminal {
    fn open(mut client: Client, launch: &Launch<'_>) -> anyhow::Result<Self> {
        let process = launch.start(&mut client)?;
        Ok(Self { client, process, writes: 0 })
    }

    /// Seconds from a key to its echo.
    fn echo(&mut self) -> anyhow::Result<f64> {
        let begin = Instant::now();
        self.writes += 1;
        let write = self.writes.to_string();
        let params = json!({"processId": self.process, "chunk": encode("x"), "writeId": write});
        self.client.request("process/write", &params)?;
        self.client.await_notification("process/output", &self.process)?;
        Ok(begin.elapsed().as_secs_f64())
    }
}

/// Exchanges in a row with one server: the next request comes while what the last one left behind is still being done, and
/// what one server leaves behind is not to be the other's.
const TURN: usize = 20;

/// How often both are asked anew, over new connections: the kernel may have put their threads elsewhere.
const SITTINGS: usize = 10;

/// Ours and theirs in turns. `ours` and `theirs` connect, and give what times one exchange.
fn in_turns<A, B>(
    bench: &Bench,
    acks: Acks,
    ours: impl Fn() -> anyhow::Result<A>,
    theirs: impl Fn() -> anyhow::Result<B>,
) -> anyhow::Result<Measured>
where
    A: FnMut() -> anyhow::Result<f64>,
    B: FnMut() -> anyhow::Result<f64>,
{
    // An ordinary client's exchange takes 40 ms with the stock server.
    let turns = if acks == Acks::Quick { 10 } else { 1 };
    let (mut top, mut bottom) = (Vec::new(), Vec::new());
    for _ in 0..bench.scale.rounds(SITTINGS) {
        let (mut ours, mut theirs) = (ours()?, theirs()?);
        ours()?;
        theirs()?;
        for _ in 0..bench.scale.rounds(turns) {
            for _ in 0..TURN {
                top.push(ours()?);
            }
            for _ in 0..TURN {
                bottom.push(theirs()?);
            }
        }
    }
    Ok(ratio(&top, &bottom))
}

fn echo(bench: &Bench, acks: Acks) -> anyhow::Result<Measured> {
    let workspace = bench.ours.workspace();
    let launch = Launch { tty: true, ..Launch::plain(&["/bin/cat"], &workspace) };
    let stock = bench.stock()?;
    let echoes = |client| {
        let mut terminal = Terminal::open(client, &launch)?;
        anyhow::Ok(move || terminal.echo())
    };
    in_turns(bench, acks, || echoes(bench.ours.client(acks)?), || echoes(stock.client(acks)?))
}

fn timed(client: &mut Client, params: &Value) -> anyhow::Result<f64> {
    let begin = Instant::now();
    client.exchange("fs/getMetadata", params)?;
    Ok(begin.elapsed().as_secs_f64())
}

fn metadata(bench: &Bench, acks: Acks) -> anyhow::Result<Measured> {
    let params = file_params(bench)?;
    let stock = bench.stock()?;
    let exchanges = |mut client: Client| {
        let params = &params;
        anyhow::Ok(move || timed(&mut client, params))
    };
    in_turns(bench, acks, || exchanges(bench.ours.client(acks)?), || exchanges(stock.client(acks)?))
}

fn file_params(bench: &Bench) -> anyhow::Result<Value> {
    let file = bench.ours.workspace().join("metadata");
    fs::write(&file, "x")?;
    Ok(json!({"path": uri(&file)}))
}

/// A flood without an end.
const FLOOD: [&str; 3] = ["/bin/dd", "if=/dev/zero", "bs=64K"];

fn beside_a_flood(bench: &Bench, tty: bool) -> anyhow::Result<Measured> {
    let params = file_params(bench)?;
    let mut client = bench.ours.client(Acks::Ordinary)?;
    let samples = bench.scale.rounds(1000);
    let mut sample = || (0..samples).map(|_| timed(&mut client, &params)).collect::<anyhow::Result<Vec<_>>>();
    sample()?;
    let (mut beside, mut quiet) = (Vec::new(), Vec::new());
    for _ in 0..bench.scale.rounds(5) {
        quiet.extend(sample()?);
        let mut reader = bench.ours.client(Acks::Ordinary)?;
        let workspace = bench.ours.workspace();
        Launch { tty, ..Launch::plain(&FLOOD, &workspace) }.start(&mut reader)?;
        let hangup = reader.handle()?;
        // It ends by an error: the connection's end.
        let flood = thread::spawn(move || drop(reader.decode_output()));
        beside.extend(sample()?);
        hangup.shutdown(Shutdown::Both)?;
        flood.join().map_err(|_| anyhow::anyhow!("the reader of the flood panicked"))?;
    }
    Ok(ratio_of(&beside, &quiet, |times| percentile(times, 99)))
}

/// The response comes between the flood's frames, which this client reads to get to it.
fn within_a_flood(bench: &Bench) -> anyhow::Result<Measured> {
    let params = file_params(bench)?;
    let samples = bench.scale.rounds(1000);
    let (mut within, mut quiet) = (Vec::new(), Vec::new());
    for _ in 0..bench.scale.rounds(5) {
        // It ends with its connection.
        let mut client = bench.ours.client(Acks::Ordinary)?;
        let sample = |into: &mut Vec<f64>, client: &mut Client| {
            (0..samples).try_for_each(|_| timed(client, &params).map(|time| into.push(time)))
        };
        sample(&mut quiet, &mut client)?;
        let workspace = bench.ours.workspace();
        Launch::plain(&FLOOD, &workspace).start(&mut client)?;
        sample(&mut within, &mut client)?;
    }
    Ok(ratio_of(&within, &quiet, |times| percentile(times, 99)))
}
