//! Commands in windows, in an embedded sidecar.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use agent_client::tools::{Command, ExecCommand, Tools, Window, WriteStdin};
use agent_client::{Config, Environment, Error, ExecBackend};
use tempfile::TempDir;

struct Place {
    environment: Arc<Environment>,
    tools: Tools,
    _workspace: TempDir,
}

async fn place() -> Place {
    let workspace = tempfile::Builder::new().prefix("agent-client-").tempdir_in("/var/tmp").unwrap();
    let config = Config::resolve(&[], workspace.path()).unwrap();
    let environment = Arc::new(Environment::connect(&config).await.unwrap());
    let backend: Arc<dyn ExecBackend> = environment.clone();
    let tools = Tools::new(backend, "/bin/sh", workspace.path());
    Place { environment, tools, _workspace: workspace }
}

impl Place {
    async fn end(self) {
        drop(self.tools);
        if let Some(environment) = Arc::into_inner(self.environment) {
            environment.close().await;
        }
    }

    /// Looks until the command has ended.
    async fn until_the_end(&self, mut window: Window) -> (String, Window) {
        let mut output = std::mem::take(&mut window.output);
        while let Some(session_id) = window.session_id {
            let yield_time = Some(Duration::from_secs(120));
            let look = WriteStdin { session_id, yield_time, ..WriteStdin::default() };
            window = self.tools.write_stdin(look, None).await.unwrap();
            output += &window.output;
        }
        (output, window)
    }
}

fn sh(line: &str) -> ExecCommand {
    ExecCommand {
        yield_time: Some(Duration::from_secs(30)),
        ..ExecCommand::new(Command::Shell(line.to_owned()))
    }
}

#[tokio::test]
async fn a_command_that_ends_in_its_window_has_an_exit_code() {
    let place = place().await;
    let window = place.tools.exec_command(sh("echo out; echo err >&2; exit 3"), None).await.unwrap();
    let (output, window) = place.until_the_end(window).await;
    assert_eq!((window.exit_code, window.session_id, &window.failure), (Some(3), None, &None));
    assert!(output.contains("out\n") && output.contains("err\n"), "{output}");
    // It wakes at the exit: the window would be open for half a minute.
    let window = place.tools.exec_command(sh("sleep .2"), None).await.unwrap();
    assert_eq!(window.exit_code, Some(0));
    let argv = ExecCommand::new(Command::Argv(vec!["echo".into(), "$HOME".into()]));
    let window = place.tools.exec_command(argv, None).await.unwrap();
    assert_eq!(place.until_the_end(window).await.0, "$HOME\n", "no shell in between");
    assert_eq!(place.tools.sessions(), 0);
    let missing = ExecCommand::new(Command::Argv(vec!["no-such-program".into()]));
    assert!(matches!(place.tools.exec_command(missing, None).await, Err(Error::Rpc { .. })));
    place.end().await;
}

#[tokio::test]
async fn case_09_characters_are_never_split() {
    let place = place().await;
    // 300,000 bytes, most of them written a byte at a time.
    let script = "i=0; while [ $i -lt 100 ]; do printf '\\342'; printf '\\230'; printf '\\225'; i=$((i+1)); done; \
                  head -c 299700 /dev/zero | sed 's/\\x00\\x00\\x00/\u{2615}/g'";
    let all = ExecCommand { max_output_tokens: Some(100_000), ..sh(script) };
    let window = place.tools.exec_command(all, None).await.unwrap();
    let (output, _) = place.until_the_end(window).await;
    assert_eq!(output.chars().filter(|c| *c == '\u{2615}').count(), 100_000);
    assert!(!output.contains('\u{fffd}'));

    let window = place
        .tools
        .exec_command(ExecCommand { max_output_tokens: Some(1000), ..sh(script) }, None)
        .await
        .unwrap();
    assert_eq!(window.session_id, None, "{window:?}");
    assert!(!window.output.contains('\u{fffd}'), "the cut is between characters");
    assert!(
        window.output.len() < 4200 && window.output.contains("bytes left out"),
        "{}",
        window.output.len()
    );
    assert_eq!(window.original_token_count, 75_000);
    place.end().await;
}

#[tokio::test]
async fn a_terminal_is_written_to_in_later_windows() {
    let place = place().await;
    let yield_time = Some(Duration::ZERO);
    let command = ExecCommand { tty: true, yield_time, ..sh("read line; echo got-$line; exit 4") };
    let window = place.tools.exec_command(command, None).await.unwrap();
    let session_id = window.session_id.expect("it waits for its input");
    assert_eq!(window.exit_code, None);
    let write = WriteStdin {
        session_id,
        chars: "hello\n".into(),
        yield_time: Some(Duration::from_secs(30)),
        ..WriteStdin::default()
    };
    let window = place.tools.write_stdin(write, None).await.unwrap();
    let (output, window) = place.until_the_end(window).await;
    assert!(output.contains("got-hello"), "{output}");
    assert_eq!(window.exit_code, Some(4));
    let gone = place.tools.write_stdin(WriteStdin { session_id, ..WriteStdin::default() }, None).await;
    assert!(matches!(gone, Err(Error::UnknownSession { .. })), "{gone:?}");

    let piped = ExecCommand { yield_time: Some(Duration::ZERO), ..sh("sleep 60") };
    let session_id = place.tools.exec_command(piped, None).await.unwrap().session_id.unwrap();
    let write = WriteStdin { session_id, chars: "x".into(), ..WriteStdin::default() };
    assert!(matches!(place.tools.write_stdin(write, None).await, Err(Error::StdinClosed { .. })));
    place.end().await;
}

#[tokio::test]
async fn a_lost_connection_is_a_failure_and_no_exit_code() {
    let place = place().await;
    let command = ExecCommand { yield_time: Some(Duration::ZERO), ..sh("echo first; sleep 600") };
    let session_id = place.tools.exec_command(command, None).await.unwrap().session_id.unwrap();
    place.environment.client().clone().close().await;
    let window =
        place.tools.write_stdin(WriteStdin { session_id, ..WriteStdin::default() }, None).await.unwrap();
    assert_eq!((window.exit_code, window.session_id), (None, None));
    assert!(window.failure.as_deref().unwrap().contains("connection"), "{window:?}");
    place.end().await;
}

#[tokio::test]
async fn a_timeout_is_the_servers() {
    let place = place().await;
    let command = ExecCommand { timeout: Some(Duration::from_millis(50)), ..sh("sleep 600") };
    let window = place.tools.exec_command(command, None).await.unwrap();
    let (_, window) = place.until_the_end(window).await;
    assert_eq!(window.exit_code, Some(143));
    place.end().await;
}

#[tokio::test]
async fn there_are_never_more_than_64() {
    let place = place().await;
    let start = || ExecCommand { yield_time: Some(Duration::ZERO), ..sh("exec sleep 600") };
    let mut ids = Vec::new();
    for _ in 0..64 {
        ids.push(place.tools.exec_command(start(), None).await.unwrap().session_id.unwrap());
    }
    // A use of the oldest makes the second the one to go.
    let poll = |session_id| WriteStdin { session_id, chars: "x".into(), ..WriteStdin::default() };
    assert!(matches!(place.tools.write_stdin(poll(ids[0]), None).await, Err(Error::StdinClosed { .. })));
    place.tools.exec_command(start(), None).await.unwrap();
    assert_eq!(place.tools.sessions(), 64);
    assert!(matches!(place.tools.write_stdin(poll(ids[0]), None).await, Err(Error::StdinClosed { .. })));
    assert!(matches!(place.tools.write_stdin(poll(ids[1]), None).await, Err(Error::UnknownSession { .. })));
    place.end().await;
}
