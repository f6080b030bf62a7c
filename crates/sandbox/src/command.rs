//! What to start, and its standard descriptors.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::pipe2;

use crate::pty;

/// Where a program without a slash is looked for when the environment has no PATH.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What to start.
#[derive(Debug)]
pub struct Command {
    /// The program and its arguments.
    pub argv: Vec<CString>,
    /// What the program sees as its own name, instead of `argv[0]`.
    pub arg0: Option<CString>,
    /// The whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// The working directory.
    pub cwd: PathBuf,
    /// Pipes or a terminal.
    pub stdio: Stdio,
    /// Limits of each process of the tree.
    pub limits: Limits,
}

/// Resource limits, for each process of a launch by itself; setrlimit(2). `None` leaves what the server has. One above
/// the server's own hard limit comes down to that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Data segment, bytes (RLIMIT_DATA: RLIMIT_AS breaks java, node and go).
    pub memory_bytes: Option<u64>,
    /// Open files.
    pub open_files: Option<u64>,
    /// Size of a file that is written, bytes.
    pub file_bytes: Option<u64>,
    /// CPU time, seconds: SIGXCPU then, SIGKILL [`CPU_GRACE`] later.
    pub cpu_seconds: Option<u64>,
}

/// Seconds of CPU time between SIGXCPU and SIGKILL.
const CPU_GRACE: u64 = 5;

/// A limit as the kernel takes it: resource, soft, hard.
pub(crate) type RawLimit = (u32, [u64; 2]);
/// One for each field of [`Limits`], and the one against core dumps.
pub(crate) const RAW_LIMITS: usize = 5;

impl Limits {
    /// Each as the kernel takes it, cut down to the server's hard limits; core dumps are off.
    ///
    /// # Errors
    /// The server's own limits cannot be read.
    pub(crate) fn raw(self) -> io::Result<[Option<RawLimit>; RAW_LIMITS]> {
        let limit = |resource: Resource, soft: Option<u64>, grace: u64| -> io::Result<Option<RawLimit>> {
            let Some(soft) = soft else { return Ok(None) };
            let (_, ceiling) = getrlimit(resource)?;
            let hard = soft.saturating_add(grace).min(ceiling);
            Ok(Some((resource as u32, [soft.min(hard), hard])))
        };
        Ok([
            limit(Resource::RLIMIT_CORE, Some(0), 0)?,
            limit(Resource::RLIMIT_DATA, self.memory_bytes, 0)?,
            limit(Resource::RLIMIT_NOFILE, self.open_files, 0)?,
            limit(Resource::RLIMIT_FSIZE, self.file_bytes, 0)?,
            limit(Resource::RLIMIT_CPU, self.cpu_seconds, CPU_GRACE)?,
        ])
    }
}

/// What the command's standard descriptors are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stdio {
    /// Separate pipes.
    Pipes {
        /// Whether stdin is a pipe; /dev/null otherwise.
        stdin: bool,
    },
    /// A terminal.
    Pty {
        /// Lines.
        rows: u16,
        /// Columns.
        cols: u16,
    },
}

/// The server's ends, non-blocking and close-on-exec.
#[derive(Debug)]
pub enum Io {
    /// Separate pipes.
    Pipes {
        /// Write end, where stdin is a pipe.
        stdin: Option<OwnedFd>,
        /// Read end.
        stdout: OwnedFd,
        /// Read end.
        stderr: OwnedFd,
    },
    /// The terminal's master.
    Pty(OwnedFd),
}

/// The command's ends.
#[derive(Debug)]
pub(crate) enum Ends {
    Pipes { stdin: Option<OwnedFd>, stdout: OwnedFd, stderr: OwnedFd },
    Pty(OwnedFd),
}

impl Ends {
    /// The numbers for stdin, stdout and stderr; `null` is /dev/null.
    pub(crate) fn numbers(&self, null: &OwnedFd) -> [i32; 3] {
        match self {
            Ends::Pipes { stdin, stdout, stderr } => {
                [stdin.as_ref().unwrap_or(null).as_raw_fd(), stdout.as_raw_fd(), stderr.as_raw_fd()]
            }
            Ends::Pty(slave) => [slave.as_raw_fd(); 3],
        }
    }

    pub(crate) fn is_terminal(&self) -> bool {
        matches!(self, Ends::Pty(_))
    }
}

/// Makes both ends.
///
/// # Errors
/// Out of descriptors or terminals.
pub(crate) fn open(stdio: Stdio) -> io::Result<(Io, Ends)> {
    match stdio {
        Stdio::Pipes { stdin } => {
            let (in_read, in_write) = stdin.then(|| pipe2(OFlag::O_CLOEXEC)).transpose()?.unzip();
            let (out_read, out_write) = pipe2(OFlag::O_CLOEXEC)?;
            let (err_read, err_write) = pipe2(OFlag::O_CLOEXEC)?;
            for end in [in_write.as_ref(), Some(&out_read), Some(&err_read)].into_iter().flatten() {
                fcntl(end, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
            }
            Ok((
                Io::Pipes { stdin: in_write, stdout: out_read, stderr: err_read },
                Ends::Pipes { stdin: in_read, stdout: out_write, stderr: err_write },
            ))
        }
        Stdio::Pty { rows, cols } => {
            let (master, slave) = pty::open(rows, cols)?;
            Ok((Io::Pty(master), Ends::Pty(slave)))
        }
    }
}

impl Command {
    /// `NAME=value` strings.
    ///
    /// # Errors
    /// A NUL byte.
    pub(crate) fn environment(&self) -> io::Result<Vec<CString>> {
        let join = |(name, value): &(OsString, OsString)| {
            let mut line = name.as_bytes().to_vec();
            line.push(b'=');
            line.extend_from_slice(value.as_bytes());
            CString::new(line).map_err(io::Error::from)
        };
        self.env.iter().map(join).collect()
    }

    /// The files that exec tries, as execvp(3) does: the program itself where it holds a slash, else one in each
    /// directory of the launch's own PATH.
    ///
    /// # Errors
    /// A NUL byte.
    pub(crate) fn candidates(&self) -> io::Result<Vec<CString>> {
        let program = self.argv.first().map_or(&[][..], |p| p.as_bytes());
        if program.contains(&b'/') || program.is_empty() {
            return Ok(vec![CString::new(program)?]);
        }
        let path =
            self.env.iter().find(|(name, _)| name == "PATH").map_or(OsStr::new(DEFAULT_PATH), |(_, v)| v);
        let candidate = |dir: &[u8]| {
            // An empty element is the working directory.
            let mut file = if dir.is_empty() { b"./".to_vec() } else { [dir, b"/"].concat() };
            file.extend_from_slice(program);
            CString::new(file).map_err(io::Error::from)
        };
        path.as_bytes().split(|b| *b == b':').map(candidate).collect()
    }

    /// `argv` as the program sees it.
    pub(crate) fn arguments(&self) -> Vec<CString> {
        let mut argv = self.argv.clone();
        if let (Some(first), Some(arg0)) = (argv.first_mut(), &self.arg0) {
            first.clone_from(arg0);
        }
        argv
    }

    /// Sets a variable, over one that is there.
    pub(crate) fn set_env(&mut self, name: &str, value: &OsStr) {
        self.env.retain(|(n, _)| n != name);
        self.env.push((name.into(), value.to_owned()));
    }

    /// Adds a word to a variable that holds a list of them.
    pub(crate) fn append_env(&mut self, name: &str, word: &str) {
        let mut value =
            self.env.iter().find(|(n, _)| n == name).map_or_else(OsString::new, |(_, v)| v.clone());
        if !value.is_empty() {
            value.push(" ");
        }
        value.push(word);
        self.set_env(name, &value);
    }

    /// The program as it was asked for.
    pub(crate) fn program(&self) -> PathBuf {
        self.argv
            .first()
            .map(|p| PathBuf::from(OsString::from_vec(p.as_bytes().to_vec())))
            .unwrap_or_default()
    }
}
