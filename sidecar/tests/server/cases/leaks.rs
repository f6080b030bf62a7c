//! What is left of launches when they are over: nothing.

use std::path::Path;

use super::{tty, until};
use crate::lines::{PROCESSES, Setting, over_each_transport};
use crate::terminate::leaves_nothing;

over_each_transport![
    case_05_a_thousand_failures,
    case_18_daemons_are_ended,
    case_19_the_background_leaves_no_zombie,
    case_30_terminals_leave_no_descriptor,
];

/// From this launch on a server keeps as many that have ended as it may.
const SETTLED: usize = 2 * PROCESSES;

/// What a process holds, counted.
#[derive(Debug)]
struct Held {
    descriptors: usize,
    threads: usize,
}

impl Held {
    /// Of the server, where it is a process of its own; there are other tests beside it elsewhere. It lets nobody but root
    /// look at what it holds.
    fn by(setting: &Setting) -> Option<Held> {
        if !nix::unistd::geteuid().is_root() {
            return None;
        }
        let dir = format!("/proc/{}", setting.server_pid()?);
        let count = |name| std::fs::read_dir(Path::new(&dir).join(name)).expect("it runs").count();
        Some(Held { descriptors: count("fd"), threads: count("task") })
    }
}

/// Waits until the server holds no more than before. Its threads for blocking calls come and go.
async fn nothing_more_than(before: Option<Held>, setting: &Setting) {
    let Some(before) = before else { return };
    until(&format!("no more than {before:?}"), || {
        let now = Held::by(setting).expect("a process");
        now.descriptors <= before.descriptors && now.threads <= before.threads + 16
    })
    .await;
}

/// Zombies among the children of the server's process.
fn zombies(setting: &Setting) -> usize {
    let server = setting.server_pid().unwrap_or(std::process::id()).to_string();
    let stats = std::fs::read_dir("/proc").expect("/proc").flatten();
    let stats = stats.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    // After the name, which may hold anything: the state, the parent.
    let is_zombie = |stat: &String| {
        let mut rest = stat.rsplit(") ").next().unwrap_or_default().split(' ');
        rest.next() == Some("Z") && rest.next() == Some(server.as_str())
    };
    stats.filter(is_zombie).count()
}

async fn case_05_a_thousand_failures(mut setting: Setting) {
    const TIMES: usize = 1000;
    let mut before = None;
    for turn in 0..SETTLED + TIMES {
        let (client, fixture) = (&mut setting.client, &setting.fixture);
        let exited = client.run(fixture.command(&format!("false-{turn}"), &["false"])).await;
        assert_eq!(exited.code(), 1);
        let missing = fixture.command(&format!("missing-{turn}"), &["no-such-program"]);
        let error = client.refused("process/start", missing).await;
        assert_eq!(error["data"]["kind"], "spawnNotFound", "{error}");
        if turn == SETTLED {
            before = Held::by(&setting);
        }
    }
    nothing_more_than(before, &setting).await;
    until("no zombies", || zombies(&setting) == 0).await;
}

/// Forks twice, as daemons do.
const DAEMON: &str = r#"exec python3 -c '
import os
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvp("sleep", ["sleep", "MARKER"])
    os._exit(0)
os.wait()
print("up", flush=True)
os.execvp("sleep", ["sleep", "MARKER"])'"#;

async fn case_18_daemons_are_ended(mut setting: Setting) {
    let transport = setting.transport as u8;
    let (client, fixture) = (&mut setting.client, &setting.fixture);
    let setsid = "setsid sh -c 'sleep MARKER & disown 2>/dev/null; sleep MARKER' & echo up; wait";
    for (name, script) in [("setsid", setsid), ("daemon", DAEMON)] {
        leaves_nothing(fixture, client, name, &format!("1800.{transport}{}", name.len()), script).await;
    }
}

async fn case_19_the_background_leaves_no_zombie(mut setting: Setting) {
    for turn in 0..200 {
        let (client, fixture) = (&mut setting.client, &setting.fixture);
        assert_eq!(client.run(fixture.shell(&format!("p{turn}"), "sleep .1 &")).await.code(), 0);
    }
    until("no zombies", || zombies(&setting) == 0).await;
}

async fn case_30_terminals_leave_no_descriptor(mut setting: Setting) {
    let mut before = None;
    for turn in 0..SETTLED + 500 {
        let (client, fixture) = (&mut setting.client, &setting.fixture);
        let id = format!("p{turn}");
        assert_eq!(client.run(tty(fixture.command(&id, &["true"]))).await.code(), 0);
        if turn == SETTLED {
            before = Held::by(&setting);
        }
    }
    nothing_more_than(before, &setting).await;
}
