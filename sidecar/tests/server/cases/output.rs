//! Output: what must arrive, and who must not wait for it.

use std::time::Duration;

use serde_json::json;

use super::{end_descendants, marker, stdin, tty, until};
use crate::admin::Scrape;
use crate::common::{alive, decode, encode};
use crate::lines::{Setting, over_each_transport};

over_each_transport![
    case_01_a_background_process_holds_the_pipe,
    case_02_the_last_line_comes_before_the_end,
    case_03_a_slow_reader_gets_every_byte,
    case_06_a_flood_delays_nobody_else,
    case_08_a_waiting_read_wakes_at_the_exit,
    case_11_long_lines_and_bursts,
    case_37_quick_terminals_lose_nothing,
];

async fn case_01_a_background_process_holds_the_pipe(mut setting: Setting) {
    let marker = marker(1, &setting);
    let (client, fixture) = (&mut setting.client, &setting.fixture);
    let transcript = client.run(fixture.shell("p", &format!("sleep {marker} & echo ok"))).await;
    assert_eq!((transcript.out().as_str(), transcript.code()), ("ok\n", 0));
    // Its output has ended by the drain limit, and it lives on.
    assert!(alive(&marker) > 0);
    end_descendants(client, "p").await;
    until("the background process is gone", || alive(&marker) == 0).await;
}

async fn case_02_the_last_line_comes_before_the_end(mut setting: Setting) {
    let marker = marker(2, &setting);
    let (client, fixture) = (&mut setting.client, &setting.fixture);
    let transcript = client.run(fixture.shell("p", &format!("seq 200000; sleep {marker} &"))).await;
    let expected: String = (1..=200_000).map(|n| format!("{n}\n")).collect();
    assert!(transcript.out() == expected, "{} bytes", transcript.stdout.len());
    end_descendants(client, "p").await;
}

async fn case_03_a_slow_reader_gets_every_byte(mut setting: Setting) {
    /// Half of all that is written, so a server that keeps what is not read is found out; some times what is retained, KiB.
    const FLAT: u64 = 7 << 10;
    let server = setting.server_pid();
    let (client, fixture) = (&mut setting.client, &setting.fixture);
    // What a server needs once is not what it keeps.
    client.run(fixture.command("first", &["seq", "100000"])).await;
    let before = server.map(resident);
    client.call("process/start", fixture.command("p", &["seq", "2000000"])).await;
    // A megabyte in a second.
    let mut pace = tokio::time::interval(Duration::from_millis(62));
    let (mut seen, mut paced, mut seq) = (Vec::new(), 0, 1);
    loop {
        let notification = client.notification().await;
        assert_eq!(notification["params"]["seq"], seq, "{notification}");
        seq += 1;
        match notification["method"].as_str().expect("a method") {
            "process/output" => seen.extend(decode(&notification["params"]["chunk"])),
            "process/closed" => break,
            _ => {}
        }
        while paced + (64 << 10) <= seen.len() {
            pace.tick().await;
            paced += 64 << 10;
            if let (Some(server), Some(before)) = (server, before) {
                assert!(resident(server) < before + FLAT, "the server keeps what is not read");
            }
        }
    }
    let expected: String = (1..=2_000_000).map(|n| format!("{n}\n")).collect();
    assert!(seen == expected.as_bytes(), "{} bytes", seen.len());
}

/// The resident memory of a process, in KiB.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

async fn case_06_a_flood_delays_nobody_else(mut setting: Setting) {
    /// Output that may come before an answer: what the buffers between here and there hold, and no more.
    const ON_THE_WAY: usize = 32 << 20;
    let echo = "while read line; do echo $line >&2; done";
    setting.client.call("process/start", stdin(setting.fixture.shell("echo", echo))).await;
    // Last: what comes while a launch is waited for would count as what came before the first answers.
    setting.client.call("process/start", setting.fixture.command("flood", &["yes"])).await;
    let (mut floods, mut echoed) = (0, 0);
    for turn in 0..50 {
        let (client, fixture) = (&mut setting.client, &setting.fixture);
        let (line, dir) = (format!("line{turn}"), format!("dir{turn}"));
        let write = json!({ "processId": "echo", "chunk": encode(format!("{line}\n")) });
        let written = client.request("process/write", write).await;
        let looked_at = client.request("fs/getMetadata", json!({ "path": fixture.ws("") })).await;
        let made = client.request("fs/createDirectory", json!({ "path": fixture.ws(&dir) })).await;
        echoed += line.len() + 1;
        // Nothing is read before the server has the answers, and the line that comes back: the flood stands still at full
        // buffers, however long a busy machine takes for them.
        while !has_answered(&setting.scrape().await, turn + 1, echoed) {}
        let client = &mut setting.client;
        client.outcome(written).await.expect("written");
        client.outcome(looked_at).await.expect("looked at");
        client.outcome(made).await.expect("made");
        let mut flood = 0;
        loop {
            let output = client.notification().await;
            let params = &output["params"];
            match params["processId"].as_str() {
                Some("flood") => flood += params["chunk"].as_str().map_or(0, str::len),
                _ => {
                    assert_eq!(decode(&params["chunk"]), format!("{line}\n").as_bytes(), "{output}");
                    break;
                }
            }
        }
        assert!(flood < ON_THE_WAY, "{flood} bytes of the flood came before the answers of turn {turn}");
        floods += flood;
    }
    assert!(floods > 0, "the control: there was a flood");
    setting.client.call("process/signal", json!({ "processId": "flood", "signal": "kill" })).await;
}

/// Whether so many requests of each kind are answered, and so many bytes of the error stream have come.
fn has_answered(scrape: &Scrape, requests: u32, bytes: usize) -> bool {
    let answered =
        |method| scrape.count(&format!("sidecar_requests_total{{code=\"ok\",method=\"{method}\"}}"));
    let methods = ["process/write", "fs/getMetadata", "fs/createDirectory"];
    methods.into_iter().all(|method| answered(method) >= f64::from(requests))
        && scrape.count("sidecar_output_bytes_total{stream=\"stderr\"}") >= bytes as f64
}

async fn case_08_a_waiting_read_wakes_at_the_exit(mut setting: Setting) {
    let (client, fixture) = (&mut setting.client, &setting.fixture);
    client.call("process/start", fixture.command("p", &["sleep", "0.2"])).await;
    // Nothing but the exit could wake it within the patience of a test.
    let read = client.call("process/read", json!({ "processId": "p", "waitMs": 600_000 })).await;
    assert_eq!((&read["exited"], &read["exitCode"]), (&json!(true), &json!(0)), "{read}");
}

async fn case_11_long_lines_and_bursts(mut setting: Setting) {
    let (client, fixture) = (&mut setting.client, &setting.fixture);
    let script = "head -c 8388608 /dev/zero | tr '\\0' x; dd if=/dev/zero bs=1048576 count=1 >&2 2>/dev/null";
    let transcript = client.run(fixture.shell("p", script)).await;
    assert!(transcript.stdout == vec![b'x'; 8 << 20], "{} bytes", transcript.stdout.len());
    assert!(transcript.stderr == vec![0; 1 << 20], "{} bytes", transcript.stderr.len());
}

async fn case_37_quick_terminals_lose_nothing(mut setting: Setting) {
    let (client, fixture) = (&mut setting.client, &setting.fixture);
    for i in 0..200 {
        let transcript = client.run(tty(fixture.command(&format!("p{i}"), &["printf", "x"]))).await;
        assert_eq!((transcript.pty.as_slice(), transcript.code()), (&b"x"[..], 0), "terminal {i}");
    }
}
