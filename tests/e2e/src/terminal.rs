//! A real terminal: a tmux of its own, whose screen is looked at and whose keys are pressed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{GIVE_UP, Scratch, found};

/// A terminal of 80 columns and 24 rows; ended on drop.
#[derive(Debug)]
pub struct Terminal {
    socket: PathBuf,
}

impl Terminal {
    /// Runs a program, without a shell in between where it has arguments, in a new terminal, in that directory and with these variables beside PATH, HOME and TERM.
    ///
    /// # Panics
    /// tmux is not there.
    pub fn start(scratch: &Scratch, dir: &Path, variables: &[(&str, &str)], program: &[&str]) -> Self {
        let terminal = Self { socket: scratch.base().join("tmux") };
        let mut command = terminal.tmux();
        command.args(["new-session", "-d", "-x", "80", "-y", "24", "-c"]).arg(dir);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap());
        command.env("HOME", scratch.home()).env("TERM", "xterm").env("LANG", "C.UTF-8");
        command.envs(variables.iter().copied()).args(program);
        assert!(command.status().expect("tmux; scripts/setup.sh tools installs it").success());
        terminal
    }

    fn tmux(&self) -> Command {
        let mut command = Command::new("tmux");
        command.args(["-u", "-f", "/dev/null", "-S"]).arg(&self.socket).stdin(Stdio::null());
        command
    }

    fn run(&self, words: &[&str]) -> String {
        let output = self.tmux().args(words).output().unwrap();
        assert!(output.status.success(), "tmux {words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Types text as it is.
    pub fn write(&self, text: &str) {
        self.run(&["send-keys", "-l", "--", text]);
    }

    /// Presses a key by tmux's name for it: `Enter`, `C-c`, `Escape`.
    pub fn press(&self, key: &str) {
        self.run(&["send-keys", key]);
    }

    /// Types a line.
    pub fn line(&self, text: &str) {
        self.write(text);
        self.press("Enter");
    }

    /// What is on the screen.
    pub fn screen(&self) -> String {
        self.run(&["capture-pane", "-p"])
    }

    /// Waits until the screen is so.
    ///
    /// # Panics
    /// It is not, for [`GIVE_UP`]; the message holds the screen.
    pub fn wait(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let begun = std::time::Instant::now();
        found(what, || {
            let screen = self.screen();
            assert!(begun.elapsed() < GIVE_UP, "{what} never came:\n{screen}");
            is_so(&screen).then_some(screen)
        })
    }

    /// Waits until a line of the screen is this text, spaces at its end aside.
    pub fn wait_for_line(&self, text: &str) {
        self.wait(text, |screen| screen.lines().any(|line| line.trim_end() == text));
    }

    /// Waits until the last line that holds something is this text: a prompt that waits.
    pub fn wait_for_prompt(&self, prompt: &str) {
        self.wait(prompt, |screen| {
            screen.lines().rfind(|line| !line.trim().is_empty()).is_some_and(|line| line.trim_end() == prompt)
        });
    }

    /// Its device.
    pub fn tty(&self) -> PathBuf {
        PathBuf::from(self.run(&["display-message", "-p", "#{pane_tty}"]).trim_end())
    }

    /// Gives it another size.
    pub fn resize(&self, cols: u16, rows: u16) {
        self.run(&["resize-window", "-x", &cols.to_string(), "-y", &rows.to_string()]);
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Its programs get SIGHUP. A server that is gone already is what is wanted.
        let _ = self.tmux().arg("kill-server").stderr(Stdio::null()).status();
    }
}
