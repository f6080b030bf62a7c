//! `agent-client` in a real terminal: keys in, screen out, and the terminal as it was before.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::fs;

use e2e::{Server, Terminal, found, programs};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const OUTER: &str = "outer>";
const INNER: &str = "inner>";

struct Place {
    server: Server,
    terminal: Terminal,
}

impl Place {
    /// A shell in a terminal, in the workspace, with `ac` for agent-client on the server.
    fn new() -> Self {
        let server = Server::start();
        let scratch = server.scratch();
        let bin = scratch.base().join("ac");
        let token = scratch.state().join("e2e-token");
        let script = format!(
            "#!/bin/sh\nexport AGENT_CLIENT_SIDECAR_URL={} AGENT_CLIENT_TOKEN_FILE={}\nexec {} \"$@\"\n",
            server.url(),
            token.display(),
            programs::agent_client().display()
        );
        fs::write(&bin, script).unwrap();
        fs::set_permissions(&bin, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let variables = [("PS1", "outer> "), ("AC", bin.to_str().unwrap())];
        let terminal = Terminal::start(scratch, &server.workspace(), &variables, &["/bin/sh", "-i"]);
        terminal.wait_for_prompt(OUTER);
        Self { server, terminal }
    }

    fn open_shell(&self) {
        self.terminal.line("\"$AC\" shell --shell /bin/sh -e 'PS1=inner> '");
        self.terminal.wait_for_prompt(INNER);
    }

    /// The terminal's settings, without its size.
    fn settings(&self, name: &str) -> String {
        let file = self.server.scratch().base().join(name);
        self.terminal.line(&format!("clear; stty -g > {}", file.display()));
        let settings =
            found("the settings", || fs::read_to_string(&file).ok().filter(|text| text.ends_with('\n')));
        self.terminal.wait_for_prompt(OUTER);
        settings
    }
}

#[test]
fn a_shell_is_a_shell() {
    let place = Place::new();
    let terminal = &place.terminal;
    let before = place.settings("before");
    place.open_shell();
    terminal.line("stty size");
    terminal.wait_for_line("24 80");

    terminal.resize(100, 30);
    // The new size arrives on its own; the command that asks for it does not wait for that.
    found("the new size", || {
        terminal.line("clear; stty size");
        terminal.wait_for_prompt(INNER);
        terminal.screen().contains("30 100").then_some(())
    });

    terminal.line("echo sleep-begins; sleep 1000");
    terminal.wait_for_line("sleep-begins");
    terminal.press("C-c");
    terminal.wait_for_prompt(INNER);

    terminal.line("echo cat-begins; cat; echo cat-ended");
    terminal.wait_for_line("cat-begins");
    terminal.press("C-d");
    terminal.wait_for_line("cat-ended");

    terminal.press("C-d");
    terminal.wait_for_prompt(OUTER);
    assert_eq!(place.settings("after"), before);
}

#[test]
fn an_editor_opens_and_quits() {
    let place = Place::new();
    let terminal = &place.terminal;
    let before = place.settings("before");
    place.open_shell();
    terminal.line("clear; vim -u NONE -i NONE -n written");
    terminal.wait("vim's screen", |screen| screen.lines().filter(|line| line.starts_with('~')).count() > 10);
    terminal.write("ihello from inside");
    terminal.press("Escape");
    terminal.write(":wq");
    terminal.press("Enter");
    terminal.wait_for_prompt(INNER);
    assert_eq!(fs::read_to_string(place.server.workspace().join("written")).unwrap(), "hello from inside\n");
    terminal.line("exit 7");
    terminal.wait_for_prompt(OUTER);
    assert_eq!(place.settings("after"), before);
}

#[test]
fn the_exit_code_comes_through() {
    let place = Place::new();
    place.open_shell();
    place.terminal.line("exit 7");
    place.terminal.wait_for_prompt(OUTER);
    place.terminal.line("echo code $?");
    place.terminal.wait_for_line("code 7");
}

#[test]
fn a_terminal_is_given_back_whatever_ends_it() {
    for end in [Some(Signal::SIGTERM), Some(Signal::SIGHUP), None] {
        let mut place = Place::new();
        let before = place.settings("before");
        place.terminal.line("echo $$ > ../shell; \"$AC\" exec -it -- sleep 1000");
        // The command runs, so raw mode is on.
        let client = found("agent-client", || client_of(&place));
        match end {
            Some(signal) => kill(Pid::from_raw(client), signal).unwrap(),
            None => {
                place.server.stop().unwrap();
            }
        }
        place.terminal.wait_for_prompt(OUTER);
        assert_eq!(place.settings("after"), before, "{end:?}");
    }
}

/// The agent-client below the terminal's shell, once its command runs on the server.
fn client_of(place: &Place) -> Option<i32> {
    let shell: i32 =
        fs::read_to_string(place.server.scratch().base().join("shell")).ok()?.trim().parse().ok()?;
    let is_running = descendants(i32::try_from(place.server.pid()).ok()?).iter().any(|pid| {
        fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"sleep\x001000"))
    });
    let client = descendants(shell).into_iter().find(|pid| {
        fs::read_link(format!("/proc/{pid}/exe"))
            .is_ok_and(|exe| Some(exe) == programs::agent_client().canonicalize().ok())
    });
    client.filter(|_| is_running && is_raw(place))
}

/// Raw mode shows in that the terminal does not echo.
fn is_raw(place: &Place) -> bool {
    let tty = place.terminal.tty();
    let output = std::process::Command::new("stty").arg("-F").arg(tty).arg("-a").output().unwrap();
    String::from_utf8_lossy(&output.stdout).split_whitespace().any(|word| word == "-icanon")
}

fn descendants(pid: i32) -> Vec<i32> {
    let mut found = vec![pid];
    let mut at = 0;
    while at < found.len() {
        let tasks = fs::read_dir(format!("/proc/{}/task", found[at])).into_iter().flatten().flatten();
        for task in tasks {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            found.extend(children.split_whitespace().filter_map(|child| child.parse::<i32>().ok()));
        }
        at += 1;
    }
    found
}
