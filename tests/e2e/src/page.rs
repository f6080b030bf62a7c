//! Pages of docs/ as a reader follows them. What a test does with a fenced block is in its info string, behind the language:
//!
//! | info string | what it means |
//! |---|---|
//! | `file=PATH` | the block becomes that file; `~` is the reader's home, in the block too |
//! | `append=PATH` | it is added to that file |
//! | `run` | a script, which must succeed |
//! | `container` | the same, for what is to be had in the containers of tests/kube/test_agents.py alone; not run here |
//! | `background` | a server, which has started once it has written a line to stdout |
//! | `prints` | the last script's stdout holds these lines, in this order |
//!
//! Other blocks are left alone.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// The fenced blocks of a page: info string and text.
pub fn blocks(markdown: &str) -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in markdown.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(info), None) => open = Some((info.trim().to_owned(), String::new())),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some((_, text))) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block has no end");
    blocks
}

/// When a script is heard of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// It is to run.
    Before,
    /// It has run.
    After,
}

/// Somebody who follows a page.
#[derive(Debug)]
pub struct Reader {
    home: PathBuf,
    directory: PathBuf,
    environment: BTreeMap<OsString, OsString>,
    /// What the page says, and what is here.
    here: Vec<(String, String)>,
    started: Vec<Child>,
}

impl Reader {
    /// With that home and that current directory.
    pub fn new(home: &Path, directory: &Path) -> Self {
        let mut environment = BTreeMap::from([("HOME".into(), home.into())]);
        environment.extend(std::env::var_os("LANG").map(|lang| ("LANG".into(), lang)));
        Self {
            home: home.to_owned(),
            directory: directory.to_owned(),
            environment,
            here: vec![],
            started: vec![],
        }
    }

    /// With a variable.
    #[must_use]
    pub fn variable(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.environment.insert(name.into(), value.into());
        self
    }

    /// With something other than the page has.
    #[must_use]
    pub fn here(mut self, on_the_page: &str, here: &str) -> Self {
        assert!(!on_the_page.is_empty());
        self.here.push((on_the_page.to_owned(), here.to_owned()));
        self
    }

    /// Follows a page.
    pub fn follow(&mut self, markdown: &str) {
        self.follow_watched(markdown, |_, _| {});
    }

    /// Follows a page. `watch` hears of each script before it runs, and once it has run.
    pub fn follow_watched(&mut self, markdown: &str, mut watch: impl FnMut(Moment, &str)) {
        // Nothing after a script that is not run here.
        let mut stdout = Some(String::new());
        let mut followed = 0;
        for (info, text) in blocks(markdown) {
            let Some((_, what)) = info.split_once(' ') else { continue };
            let text = self.here.iter().fold(text, |text, (page, here)| text.replace(page, here));
            let (what, argument) = what.split_once('=').unwrap_or((what, ""));
            match what {
                "file" => self.write(argument, &text, false),
                "append" => self.write(argument, &text, true),
                "run" => {
                    watch(Moment::Before, &text);
                    stdout = Some(self.run(&text));
                    watch(Moment::After, &text);
                }
                "background" => self.start(&text),
                "container" => stdout = None,
                "prints" => {
                    if let Some(stdout) = &stdout {
                        assert_holds(stdout, &text);
                    }
                }
                other => panic!("{other:?} means nothing; see the head of page.rs"),
            }
            followed += 1;
        }
        assert!(followed > 0, "the page has nothing to follow");
    }

    fn write(&self, path: &str, text: &str, append: bool) {
        let home = self.home.display().to_string();
        let path = PathBuf::from(path.replacen('~', &home, 1));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text = text.replace("~/", &format!("{home}/"));
        let mut options = fs::OpenOptions::new();
        options.create(true).write(true).append(append).truncate(!append);
        options.open(&path).unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn shell(&self, script: &str) -> Command {
        let mut command = Command::new("bash");
        command
            .args(["-euc", script])
            .current_dir(&self.directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        command.env_clear().envs(&self.environment);
        command
    }

    fn run(&self, script: &str) -> String {
        let output = self.shell(script).stderr(Stdio::piped()).output().unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        // Shown where the test fails.
        println!("{script}\n{stdout}{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{script}");
        stdout
    }

    fn start(&mut self, script: &str) {
        use std::os::unix::process::CommandExt as _;
        let mut child = self.shell(script).process_group(0).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "it wrote nothing: {script}");
        self.started.push(child);
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        for child in &mut self.started {
            // It is not reaped yet, so the group is still its own.
            let _ = killpg(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM);
            let _ = child.wait();
        }
    }
}

fn assert_holds(stdout: &str, expected: &str) {
    let mut lines = stdout.lines();
    for wanted in expected.lines() {
        assert!(
            lines.any(|line| line == wanted),
            "{wanted:?} is not printed, or not in this order: {stdout}"
        );
    }
}
