//! Whatever bytes on the unix socket: each answer is one line of JSON, and the server lives on.

#![no_main]

use std::cell::RefCell;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use sidecar_fuzz::{Fixture, fill, tame};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

thread_local!(static FIXTURE: RefCell<Fixture> = RefCell::new(Fixture::start(Duration::ZERO)));

fuzz_target!(|input: &[u8]| {
    FIXTURE.with_borrow_mut(|fixture| {
        let socket = fixture.workspace.path().with_extension("socket");
        let mut bytes = Vec::new();
        for line in input.split_inclusive(|byte| *byte == b'\n') {
            match std::str::from_utf8(line) {
                Ok(text) => match tame(&fill(text.trim_end_matches('\n'), &fixture.workspace, "")) {
                    Some(text) => bytes.extend_from_slice(format!("{text}\n").as_bytes()),
                    None => continue,
                },
                Err(_) => bytes.extend_from_slice(line),
            }
        }
        fixture.run(talk(socket, bytes));
    });
});

async fn talk(socket: std::path::PathBuf, bytes: Vec<u8>) {
    let stream = UnixStream::connect(socket).await.expect("the server listens");
    let (mut input, mut output) = stream.into_split();
    let write = async {
        // The server hangs up on whoever breaks the protocol.
        let _ = output.write_all(&bytes).await;
        let _ = output.shutdown().await;
    };
    let mut answers = Vec::new();
    let (_, _) = tokio::join!(write, input.read_to_end(&mut answers));
    for line in answers.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        // The last one may be cut off by a hang-up.
        if answers.ends_with(b"\n") {
            let answer: Value = serde_json::from_slice(line).expect("an answer is JSON");
            assert!(answer.is_object());
        }
    }
}
