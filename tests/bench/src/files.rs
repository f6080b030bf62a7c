//! Files: read in blocks and at once, written, listed. Time, and the memory that it takes at its peak.

use std::cell::OnceCell;
use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::ensure;
use e2e::Scratch;
use e2e::client::encode;
use serde_json::json;

use crate::bench::Bench;
use crate::memory::Peak;
use crate::stats::{Measured, ratio};
use crate::subject::{self, Stock, Subject as _, uri};
use crate::table::Bound::AtMost;
use crate::table::Row;
use crate::wire::{Acks, Client, chunk};

const MIB: usize = 1 << 20;
/// The largest block that both servers give.
const BLOCK: usize = MIB;

/// Times and the peak of one server.
#[derive(Debug, Default)]
struct Runs {
    seconds: Vec<f64>,
    /// Of the first round: what an allocator has kept since is no growth any more.
    peak: Vec<f64>,
}

pub(crate) fn rows(bench: &Bench) -> Vec<Row> {
    let [blocks, whole] = [(100, in_blocks as Act), (40, at_once as Act)].map(|(mib, act)| {
        let size = bench.scale.amount(mib) * MIB;
        in_turns(bench, 5, |client, dir| {
            let file = dir.join(format!("{mib}-mib"));
            if !file.exists() {
                fs::write(&file, vec![b'x'; size])?;
            }
            act(client, &file, size)
        })
    });
    let time = |runs: &anyhow::Result<(Runs, Runs)>| figure(runs, |(a, b)| ratio(&a.seconds, &b.seconds));
    let peak = |runs: &anyhow::Result<(Runs, Runs)>| figure(runs, |(a, b)| ratio(&a.peak, &b.peak));
    let (third, fifth, tenth) = (1.0 / 3.0, 0.2, 0.1);
    vec![
        Row::ratio("100 MiB file read in blocks: time ÷ stock server's", AtMost(third, fifth), time(&blocks)),
        Row::ratio("the same: peak growth of RSS", AtMost(third, tenth), peak(&blocks)),
        Row::ratio("40 MiB by fs/readFile: time ÷ stock server's", AtMost(third, fifth), time(&whole)),
        Row::ratio("the same: peak growth of RSS", AtMost(third, tenth), peak(&whole)),
        Row::ratio("fs/writeFile of 10 MiB: time ÷ stock server's", AtMost(0.5, 0.3), time(&written(bench))),
        Row::ratio(
            "fs/readDirectory of 10,000: time ÷ stock server's",
            AtMost(0.4, 0.25),
            time(&listed(bench)),
        ),
    ]
}

type Act = fn(&mut Client, &Path, usize) -> anyhow::Result<()>;

fn figure(
    runs: &anyhow::Result<(Runs, Runs)>,
    figure: impl Fn(&(Runs, Runs)) -> Measured,
) -> anyhow::Result<Measured> {
    runs.as_ref().map(figure).map_err(|why| anyhow::anyhow!("{why:#}"))
}

/// The same by each server, both started for it, below our workspace. The first round tells the peak and fills the caches,
/// the others tell the time.
fn in_turns(
    bench: &Bench,
    rounds: usize,
    act: impl Fn(&mut Client, &Path) -> anyhow::Result<()>,
) -> anyhow::Result<(Runs, Runs)> {
    bench.stock()?;
    let scratch = Scratch::new();
    let (server, stock) = (subject::ours()?, Stock::start(&scratch)?);
    let workspace = server.workspace();
    let mut ours = (server.client(Acks::Quick)?, server.pid(), Runs::default());
    let mut theirs = (stock.client(Acks::Quick)?, stock.pid(), Runs::default());
    for round in 0..=bench.scale.rounds(rounds) {
        for (client, pid, runs) in [&mut ours, &mut theirs] {
            if round == 0 {
                let peak = Peak::watch(*pid)?;
                act(client, &workspace)?;
                runs.peak.push(peak.growth()?);
            } else {
                let begin = Instant::now();
                act(client, &workspace)?;
                runs.seconds.push(begin.elapsed().as_secs_f64());
            }
        }
    }
    Ok((ours.2, theirs.2))
}

/// Block after block, as a client does that writes each to its place.
fn in_blocks(client: &mut Client, file: &Path, size: usize) -> anyhow::Result<()> {
    client.call("fs/open", &json!({"handleId": "h", "path": uri(file)}))?;
    for offset in (0..size).step_by(BLOCK) {
        let params = json!({"handleId": "h", "offset": offset, "len": BLOCK});
        let block = client.exchange("fs/readBlock", &params)?;
        ensure!(chunk(block).is_some_and(|block| block.len() == BLOCK.div_ceil(3) * 4), "a short block");
    }
    client.call("fs/close", &json!({"handleId": "h"}))?;
    Ok(())
}

fn at_once(client: &mut Client, file: &Path, size: usize) -> anyhow::Result<()> {
    let response = client.exchange("fs/readFile", &json!({"path": uri(file)}))?;
    ensure!(response.len() > size.div_ceil(3) * 4, "a short file");
    Ok(())
}

fn written(bench: &Bench) -> anyhow::Result<(Runs, Runs)> {
    let data = encode(vec![b'x'; bench.scale.amount(10 * MIB)]);
    // Made once and by hand: to escape 14 MB of text, or to copy it, would take as long as to serve it.
    let request = OnceCell::new();
    in_turns(bench, 20, |client, dir| {
        let path = uri(&dir.join("written"));
        client.send(request.get_or_init(|| {
            format!(
                r#"{{"id":0,"method":"fs/writeFile","params":{{"path":"{path}","dataBase64":"{data}"}}}}"#
            )
        }))?;
        client.response(0).map(drop)
    })
}

fn listed(bench: &Bench) -> anyhow::Result<(Runs, Runs)> {
    let files = bench.scale.amount(10_000);
    in_turns(bench, 20, |client, dir| {
        let dir = dir.join("many");
        if !dir.exists() {
            fs::create_dir(&dir)?;
            (0..files).try_for_each(|number| fs::write(dir.join(format!("file-{number}")), ""))?;
        }
        client.exchange("fs/readDirectory", &json!({"path": uri(&dir)})).map(drop)
    })
}
