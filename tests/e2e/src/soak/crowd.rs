//! Many at once: what each idle connection and each live process costs the server.

use serde_json::json;

use super::measure::{Figures, proportional_kib};
use crate::{Client, Server};

/// What is counted together with the server's own memory: a shim shares it, and costs its page tables alone.
fn memory_kib(server: &Server) -> u64 {
    proportional_kib(server.pid())
}

/// Opens so many connections, then so many processes on one of them, and prints what each costs.
pub async fn run(connections: usize, processes: usize) {
    // Threads and descriptors of this program count too: one per connection.
    let server = super::server(&format!(
        "limits.connections = {0}\nlimits.sessions = {0}\nlimits.processes = {1}\nlimits.pingSeconds = 3600\n",
        connections + 1,
        processes + 1
    ));
    let mut worker = Client::open(&server).await;
    let argv = ["sleep", "600"];
    let start = |n: usize| {
        json!({
            "processId": format!("p{n}"), "argv": argv, "cwd": server.workspace(), "tty": false,
            "env": { "PATH": "/usr/local/bin:/usr/bin:/bin" },
        })
    };
    worker.call("process/start", start(processes)).await.unwrap();
    let begin = memory_kib(&server);
    let mut crowd = Vec::with_capacity(connections);
    for _ in 0..connections {
        crowd.push(Client::open(&server).await);
    }
    let idle = memory_kib(&server);
    println!("{connections} idle connections: {:.1} KiB each", per(begin, idle, connections));
    drop(crowd);
    let begin = memory_kib(&server);
    for n in 0..processes {
        worker.call("process/start", start(n)).await.unwrap();
    }
    let live = memory_kib(&server);
    let figures = Figures::of(&server);
    println!(
        "{processes} live processes: {:.1} KiB each in the server, {} descriptors, {} threads in all",
        per(begin, live, processes),
        figures.descriptors,
        figures.threads
    );
    let listed = worker.call("process/list", json!({})).await.unwrap();
    assert_eq!(listed["processes"].as_array().unwrap().len(), processes + 1);
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn per(before: u64, after: u64, count: usize) -> f64 {
    after.saturating_sub(before) as f64 / count as f64
}
