//! exec_command and write_stdin: windows of commands, heard while they are open, closed where the client cancels.

use std::convert::Infallible;
use std::time::Duration;

use rmcp::model::ProgressNotificationParam;
use rmcp::service::{RequestContext, RoleServer};
use tokio::sync::mpsc;

use super::answer::{Answer, Failure, both};
use super::{Call, Server, arguments};
use crate::error::Error;
use crate::tools::{Command, ExecCommand, Tap, Window, WriteStdin};

/// Shortest time between two progress notifications: a client shows them to a person.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);
/// Of the newest output so much is told with the progress, characters.
const PROGRESS_CHARS: usize = 200;
/// Pieces of output that wait to be told.
const TAPPED: usize = 64;

impl Server {
    pub(super) async fn exec_command(&self, arguments: arguments::ExecCommand, call: Call) -> Answer {
        let command = match (arguments.cmd, arguments.argv) {
            (Some(line), None) => Command::Shell(line),
            (None, Some(argv)) if !argv.is_empty() => Command::Argv(argv),
            _ => {
                return Err(Failure::new(
                    "give either cmd, a command line, or argv, a program and its arguments",
                ));
            }
        };
        let workdir = arguments.workdir.map(|path| self.place.workdir(&path)).transpose()?;
        let command = ExecCommand {
            workdir,
            tty: arguments.tty,
            yield_time: arguments.yield_time_ms.map(Duration::from_millis),
            max_output_tokens: arguments.max_output_tokens,
            timeout: arguments.timeout_ms.map(Duration::from_millis),
            env: self.options.env.clone(),
            sandbox: call.sandbox,
            metadata: call.metadata,
            ..ExecCommand::new(command)
        };
        let cancelled = "cancelled by the client; the command was ended";
        observed(&call.context, cancelled, async |tap| Ok(self.tools.exec_command(command, tap).await?)).await
    }

    pub(super) async fn write_stdin(&self, arguments: arguments::WriteStdin, call: Call) -> Answer {
        let write = WriteStdin {
            session_id: arguments.session_id,
            chars: arguments.chars,
            yield_time: arguments.yield_time_ms.map(Duration::from_millis),
            max_output_tokens: arguments.max_output_tokens,
        };
        let cancelled = "cancelled by the client; the command still runs";
        let writing = async |tap| {
            self.tools.write_stdin(write, tap).await.map_err(|error| match error {
                // The library's word for it is about processes.
                Error::StdinClosed { .. } => Failure::new(format!(
                    "session {} has no terminal, so its stdin is closed; run the command with tty: true to write to it, \
                     or leave chars out to look at it",
                    arguments.session_id
                )),
                error => error.into(),
            })
        };
        observed(&call.context, cancelled, writing).await
    }
}

/// Does the work, tells the client meanwhile what is heard of it, and gives it up where the client cancels.
async fn observed(
    context: &RequestContext<RoleServer>,
    cancelled: &str,
    work: impl AsyncFnOnce(Option<Tap>) -> Result<Window, Failure>,
) -> Answer {
    let (tap, heard) = mpsc::channel(TAPPED);
    let wants_progress = context.meta.get_progress_token().is_some();
    tokio::select! {
        window = work(wants_progress.then_some(tap)) => told(&window?),
        () = context.ct.cancelled() => Err(Failure::new(cancelled)),
        never = report(context, heard) => match never {},
    }
}

/// Tells what is heard, as long as it is asked for.
async fn report(context: &RequestContext<RoleServer>, mut heard: mpsc::Receiver<Vec<u8>>) -> Infallible {
    let mut bytes = 0;
    while let (Some(token), Some(mut output)) = (context.meta.get_progress_token(), heard.recv().await) {
        while let Ok(more) = heard.try_recv() {
            output.extend(more);
        }
        bytes += output.len();
        #[expect(clippy::cast_precision_loss, reason = "exact up to 8 PiB")]
        let progress = ProgressNotificationParam::new(token, bytes as f64).with_message(newest(&output));
        if context.peer.notify_progress(progress).await.is_err() {
            break;
        }
        tokio::time::sleep(PROGRESS_INTERVAL).await;
    }
    std::future::pending().await
}

/// The end of the output, from the start of a line where it has one.
fn newest(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    let text = text.trim_end();
    let start = text.char_indices().rev().nth(PROGRESS_CHARS - 1).map_or(0, |(at, _)| at);
    let end = &text[start..];
    match end.split_once('\n') {
        Some((_, lines)) if start > 0 => lines.to_owned(),
        _ => end.to_owned(),
    }
}

/// A window in words; a failure where it is not known how the command ended.
fn told(window: &Window) -> Answer {
    if let Some(failure) = &window.failure {
        return Err(Failure::new(format!("{failure}; its output so far:\n{}", window.output)));
    }
    let state = match (window.exit_code, window.session_id) {
        (Some(code), _) => format!("Process exited with code {code}"),
        (None, Some(id)) => format!("Process running with session ID {id}; write_stdin looks at it again"),
        (None, None) => "Process ended".to_owned(),
    };
    let notes: String = window.notes.iter().map(|note| format!("Note: {note}\n")).collect();
    let text = format!(
        "Wall time: {:.3} seconds\n{state}\n{notes}Original token count: {}\nOutput:\n{}",
        window.wall_time_seconds, window.original_token_count, window.output
    );
    both(text, window)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_tells_the_newest_lines() {
        assert_eq!(newest(b"one\ntwo\n"), "one\ntwo");
        let long: String = (0..100).map(|n| format!("line {n}\n")).collect();
        let told = newest(long.as_bytes());
        assert!(
            told.starts_with("line ") && told.ends_with("line 99") && told.len() <= PROGRESS_CHARS,
            "{told}"
        );
        assert_eq!(newest("ü".repeat(300).as_bytes()), "ü".repeat(PROGRESS_CHARS));
    }
}
