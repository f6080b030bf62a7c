//! `soak [SECONDS]`: a server under mixed load; exit code 1 where it is not in the end what it was in the beginning.
//! `soak crowd [CONNECTIONS PROCESSES]`: what each of many costs.

use std::process::ExitCode;
use std::time::Duration;

use e2e::soak;

/// Half an hour.
const SECONDS: u64 = 30 * 60;
const CONNECTIONS: usize = 2000;
const PROCESSES: usize = 500;

#[tokio::main]
async fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let alike = match *words {
        [] => soak::run(Duration::from_secs(SECONDS)).await,
        ["crowd"] => crowd(CONNECTIONS, PROCESSES).await,
        ["crowd", connections, processes] => match (connections.parse(), processes.parse()) {
            (Ok(connections), Ok(processes)) => crowd(connections, processes).await,
            _ => return usage("CONNECTIONS and PROCESSES are numbers"),
        },
        [seconds] => match seconds.parse() {
            Ok(seconds) => soak::run(Duration::from_secs(seconds)).await,
            Err(e) => return usage(&format!("SECONDS {seconds:?}: {e}")),
        },
        _ => return usage("too many words"),
    };
    if alike { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn crowd(connections: usize, processes: usize) -> bool {
    soak::crowd::run(connections, processes).await;
    true
}

fn usage(why: &str) -> ExitCode {
    eprintln!("soak: {why}");
    ExitCode::from(64)
}
