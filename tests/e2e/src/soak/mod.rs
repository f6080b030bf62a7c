//! A server under mixed load for as long as one likes, and what is left of it in the end: `make soak`, `make crowd`.

pub mod crowd;
pub mod measure;
pub mod work;

use std::fs;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::{Scratch, Server};
use measure::Figures;

/// How long what is kept for a while may take to go; the longest is a thread without work, which the runtime keeps for 10 s.
const SETTLE: Duration = Duration::from_secs(90);

/// Long enough for every kind of work to have been done a few times: what is made once and kept is there then.
const WARM_UP: Duration = Duration::from_secs(20);

/// Starts a server with more configuration than a test would write.
pub fn server(config: &str) -> Server {
    let scratch = Scratch::new();
    let file = scratch.state().join("config.toml");
    let quiet = "logFilter = \"warn\"\naudit.sink = \"none\"\ntmp = \"private\"\n";
    fs::write(&file, format!("{quiet}{config}")).unwrap();
    Server::builder().scratch(scratch).arg("--config").arg(file).start()
}

/// Runs the soak; `true` where the end is like the beginning.
pub async fn run(duration: Duration) -> bool {
    // What is kept of ended processes and lost sessions is to be gone soon after them.
    let server =
        server("limits.exitedTtlSeconds = 2\nlimits.detachedTtlSeconds = 5\nlimits.connections = 128\n");
    println!("warming up for {} s", WARM_UP.as_secs());
    work::all(&server, Instant::now() + WARM_UP).await;
    settle(&server, None).await;
    let begin = Figures::of(&server);
    let end_at = Instant::now() + duration;
    let peak = async {
        let mut peak = begin;
        while Instant::now() < end_at {
            sleep(Duration::from_secs(1)).await;
            peak = peak.most(Figures::of(&server));
        }
        peak
    };
    let (done, peak) = tokio::join!(work::all(&server, end_at), peak);
    let end = settle(&server, Some(begin)).await;
    println!("{done}");
    let (table, alike) = measure::compare(begin, peak, end);
    println!("{table}");
    alike
}

/// Waits until the figures are those of the beginning, or, where there is none yet, until they stay as they are.
async fn settle(server: &Server, begin: Option<Figures>) -> Figures {
    let give_up = Instant::now() + SETTLE;
    let mut last = Figures::of(server);
    loop {
        // Longer than the runtime keeps a thread without work.
        sleep(Duration::from_secs(if begin.is_some() { 1 } else { 12 })).await;
        let now = Figures::of(server);
        let settled = begin.map_or_else(|| now.is_like(last), |begin| now.is_like(begin));
        if settled || Instant::now() > give_up {
            return now;
        }
        last = now;
    }
}
