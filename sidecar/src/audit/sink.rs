//! Where records go: stderr, a file, a unix socket. Blocking; only the writer's thread is here.

use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::rotate::Rotating;
use crate::config::{AuditConfig, AuditSink};

/// How long a socket may take no bytes.
const SOCKET_PATIENCE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) enum Sink {
    Stderr,
    File(Rotating),
    Socket(Socket),
}

impl Sink {
    /// A file must be there to write to; whoever listens on a socket may come later.
    pub(super) fn open(config: &AuditConfig) -> io::Result<Sink> {
        Ok(match &config.sink {
            AuditSink::None | AuditSink::Stderr => Sink::Stderr,
            AuditSink::File(path) => {
                Sink::File(Rotating::open(path.clone(), config.rotate_bytes, config.keep_files)?)
            }
            AuditSink::Unix(path) => Sink::Socket(Socket { path: path.clone(), stream: None }),
        })
    }

    /// Writes one line, whole or not at all as far as the reader can tell.
    pub(super) fn write(&mut self, line: &[u8]) -> io::Result<()> {
        match self {
            Sink::Stderr => io::stderr().lock().write_all(line),
            Sink::File(file) => file.write(line),
            Sink::Socket(socket) => socket.write(line),
        }
    }

    /// Lets go of what is open; the next record opens it again.
    pub(super) fn reopen(&mut self) {
        match self {
            Sink::Stderr => {}
            Sink::File(file) => file.close(),
            Sink::Socket(socket) => socket.stream = None,
        }
    }
}

/// The stream socket that somebody listens on.
#[derive(Debug)]
pub(super) struct Socket {
    path: PathBuf,
    stream: Option<UnixStream>,
}

impl Socket {
    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        if let Some(stream) = &mut self.stream
            && stream.write_all(line).is_ok()
        {
            return Ok(());
        }
        // The listener was started anew, or took a part of the line: then the next one must not be glued to it.
        self.stream = None;
        let mut stream = connect(&self.path)?;
        stream.write_all(line)?;
        self.stream = Some(stream);
        Ok(())
    }
}

fn connect(path: &Path) -> io::Result<UnixStream> {
    let stream = UnixStream::connect(path)?;
    stream.set_write_timeout(Some(SOCKET_PATIENCE))?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_listener_that_is_started_anew_gets_the_next_line() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("socket");
        let mut socket = Socket { path: path.clone(), stream: None };
        assert!(socket.write(b"lost\n").is_err());
        for line in ["one\n", "two\n"] {
            let listener = UnixListener::bind(&path).expect("bound");
            socket.write(line.as_bytes()).expect("written");
            let (stream, _) = listener.accept().expect("a connection");
            let mut got = String::new();
            BufReader::new(stream).read_line(&mut got).expect("a line");
            assert_eq!(got, line);
            std::fs::remove_file(&path).expect("removed");
        }
    }
}
