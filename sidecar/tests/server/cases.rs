//! Cases from the field: small inputs on which systems of this kind have failed. Each is a test named after its number,
//! over each transport where that makes a difference; `docs/reliability.md` has the whole table.
//!
//! Some numbers are elsewhere, beside what they belong to: 4 and 9 in the client's tests, and in the end-to-end tests over
//! stdio; 7 in [`crate::resume_acks`], 20 in [`crate::spawn_errors`], 25 in the end-to-end tests, where the kernel can be
//! faked, a part of 33 in [`crate::files_blocks`], 39 in [`crate::auth`], 40 in [`crate::drain`], [`crate::resume`] and
//! [`crate::transports`]. The swaps of 26 are [`crate::races`].

mod files;
mod input;
mod leaks;
mod output;
mod policy;
mod surroundings;

use std::time::Duration;

use serde_json::{Value, json};

use crate::common::{Client, with};
use crate::lines::Setting;

fn tty(params: Value) -> Value {
    with(params, "tty", json!(true))
}

fn stdin(params: Value) -> Value {
    with(params, "pipeStdin", json!(true))
}

/// A number of seconds to sleep that no other test has, over no other transport.
fn marker(number: u32, setting: &Setting) -> String {
    format!("{number}00.{number}{}", setting.transport as u8)
}

/// Looks again until it is so. What a process does after its end has no event to wait for.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let mut looks = tokio::time::interval(Duration::from_millis(20));
    for _ in 0..2000 {
        if holds() {
            return;
        }
        looks.tick().await;
    }
    panic!("it never came to be: {what}");
}

/// Ends what a command has left in the background.
async fn end_descendants(client: &mut Client, id: &str) {
    client.call("process/terminate", json!({ "processId": id, "descendants": true })).await;
}
