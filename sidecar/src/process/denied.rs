//! The guess that the sandbox was in a command's way, from what the command said. It stays a guess and is named one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::sys::signal::Signal;
use sidecar_protocol::process::Stream;
use sidecar_sandbox::{Exit, Prepared};

use super::words;

/// What a line says that is about the network, in lower case.
const NETWORK: [&str; 8] =
    ["connect", "socket", "network", "/dev/tcp/", "/dev/udp/", "listen", "bind", "http"];

/// Lines that are kept to find a path in; after that many the rest of the output is not looked at.
const MAX_LINES: usize = 8;

/// The longest part of a line that is kept across chunks.
const MAX_LINE: usize = 1024;

const SIGSYS: i32 = Signal::SIGSYS as i32;

/// What the guess is made from; only for sandboxed launches.
pub(super) struct Denial {
    scanner: Scanner,
    prepared: Arc<Prepared>,
    cwd: PathBuf,
}

impl Denial {
    pub(super) fn new(prepared: Arc<Prepared>, cwd: PathBuf) -> Denial {
        Denial { scanner: Scanner::default(), prepared, cwd }
    }

    /// Looks at output as it passes.
    pub(super) fn scan(&mut self, stream: Stream, bytes: &[u8]) {
        self.scanner.scan(stream, bytes);
    }

    /// Whether the sandbox may have been in the way, and what would grant what was denied.
    pub(super) fn guess(&self, exit: Exit) -> (bool, Option<String>) {
        if exit.code == 0 || !(self.scanner.found() || exit.signal == Some(SIGSYS)) {
            return (false, None);
        }
        (true, self.hint())
    }

    /// What would grant what was denied. Which path it was is what the command said; that a call or a port was meant is
    /// a guess from its words, and named one.
    fn hint(&self) -> Option<String> {
        let (scanner, prepared) = (&self.scanner, &self.prepared);
        let guess = |hint: String| format!("{hint} (a guess)");
        // Landlock refuses a port with another errno than seccomp a socket.
        let network = || {
            let port = scanner.network().filter(|port| port.is_some() || scanner.call())?;
            prepared.hint_network(port).map(guess)
        };
        let path = |slash| {
            scanner.paths(&self.cwd, slash).find_map(|(path, write)| {
                prepared
                    .hint(&path, write)
                    .or_else(|| prepared.hint(&path, !write).filter(|_| !scanner.call()))
            })
        };
        let call = || scanner.call().then(|| prepared.hint_metadata()).flatten().map(guess);
        path(true).or_else(network).or_else(call).or_else(|| path(false))
    }
}

/// Looks at the output as it passes.
#[derive(Debug, Default)]
struct Scanner {
    /// The unfinished line of each stream.
    unfinished: [Vec<u8>; 3],
    /// Each line up to the end of the words.
    lines: Vec<String>,
    glance: words::Glance,
}

impl Scanner {
    fn scan(&mut self, stream: Stream, bytes: &[u8]) {
        if self.lines.len() >= MAX_LINES {
            return;
        }
        let text = &mut self.unfinished[stream as usize];
        let (begin, mut rest) = bytes.split_at(bytes.len().min(words::LONGEST));
        text.extend_from_slice(begin);
        // Most output says nothing: then no more of it is copied than its last line may be.
        let says_nothing = words::find(text).next().is_none() && !self.glance.says_any(bytes);
        if says_nothing && rest.len() > MAX_LINE {
            text.clear();
            rest = &rest[rest.len() - MAX_LINE..];
        }
        text.extend_from_slice(rest);
        let mut done = 0;
        for found in words::find(text) {
            // "seccompermission denied"
            if found.start < done {
                continue;
            }
            let start =
                text[done..found.start].iter().rposition(|b| *b == b'\n').map_or(done, |at| done + at + 1);
            // Python has the path behind the words.
            let end =
                text[found.end..].iter().position(|b| *b == b'\n').map_or(text.len(), |at| found.end + at);
            let start = start.max(found.start.saturating_sub(MAX_LINE));
            let end = end.min(found.end + MAX_LINE);
            self.lines.push(String::from_utf8_lossy(&text[start..end]).into_owned());
            done = found.end;
            if self.lines.len() >= MAX_LINES {
                break;
            }
        }
        let line = text[done..].iter().rposition(|b| *b == b'\n').map_or(done, |at| done + at + 1);
        text.drain(..line.max(text.len().saturating_sub(MAX_LINE)));
        text.shrink_to(4 * MAX_LINE);
    }

    /// Whether anything was said.
    fn found(&self) -> bool {
        !self.lines.is_empty()
    }

    /// The TCP port that the lines which speak of the network name; the inner `None` where they name none.
    fn network(&self) -> Option<Option<u16>> {
        let mut lines = self.lines.iter().filter(|line| {
            let lower = line.to_ascii_lowercase();
            NETWORK.iter().any(|word| lower.contains(word))
        });
        let first = named_port(lines.next()?);
        Some(first.or_else(|| lines.find_map(|line| named_port(line))))
    }

    /// Whether a call was refused that is no opening of a file: those get another errno.
    fn call(&self) -> bool {
        self.lines.iter().any(|line| line.to_ascii_lowercase().contains("operation not permitted"))
    }

    /// The paths that were named, and whether they were to be written to where that can be told. With `slash` those that
    /// have one, which are paths for certain; without it the others.
    fn paths(&self, cwd: &Path, slash: bool) -> impl Iterator<Item = (PathBuf, bool)> {
        self.lines.iter().filter_map(move |line| {
            let lower = line.to_ascii_lowercase();
            let write = ["read-only", "cannot create", "cannot touch", "cannot remove", "cannot mk", "writ"]
                .iter()
                .any(|word| lower.contains(word));
            let path = named_path(line).filter(|path| path.contains('/') == slash && !is_address(path));
            path.map(|path| (cwd.join(path), write))
        })
    }
}

/// The path in `sh: cannot create PATH: Permission denied`, `cat: 'PATH': …`, `[Errno 13] Permission denied: 'PATH'`.
fn named_path(line: &str) -> Option<&str> {
    let at = words::find(line.as_bytes()).next()?.start;
    let before = line.get(..at)?.trim_end().strip_suffix(':');
    let candidates = [before.and_then(last_word), line.get(at..).and_then(quoted)];
    candidates.into_iter().flatten().find(|path| !path.is_empty() && !path.contains(['\n', '\0']))
}

/// What the shell takes for an address, and URLs.
fn is_address(path: &str) -> bool {
    path.starts_with("/dev/tcp/") || path.starts_with("/dev/udp/") || path.contains("://")
}

/// The port in `… port 8080: …`, `bind(127.0.0.1:8080)`, `/dev/tcp/127.0.0.1/8080: …`.
fn named_port(line: &str) -> Option<u16> {
    let number = |text: &str| {
        let digits = text.find(|c: char| !c.is_ascii_digit()).map_or(text, |end| &text[..end]);
        digits.parse::<u16>().ok().filter(|port| *port > 0)
    };
    let after_word = line.match_indices("port ").find_map(|(at, word)| number(&line[at + word.len()..]));
    let after_address = |separator| {
        line.match_indices(separator).find_map(|(at, _): (usize, &str)| {
            let host = line[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == ']');
            number(&line[at + 1..]).filter(|_| host)
        })
    };
    if line.contains("/dev/udp/") {
        return None;
    }
    let device = line.split_once("/dev/tcp/").and_then(|(_, rest)| number(rest.split_once('/')?.1));
    device.or(after_word).or_else(|| after_address(':'))
}

fn last_word(text: &str) -> Option<&str> {
    if text.ends_with(['\'', '"', '’']) {
        return quoted(text);
    }
    let part = text.rsplit(": ").next()?;
    // An unquoted path behind words, as in `cannot create /a`, or by itself; with spaces only where it is absolute.
    match part.find('/') {
        Some(0) => Some(part),
        Some(_) | None => part.rsplit(' ').next(),
    }
}

fn quoted(text: &str) -> Option<&str> {
    let (start, open) = text.char_indices().find(|(_, c)| matches!(c, '\'' | '"' | '‘'))?;
    let close = if open == '‘' { '’' } else { open };
    let inner = &text[start + open.len_utf8()..];
    inner.find(close).map(|end| &inner[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(chunks: &[&str]) -> Scanner {
        let mut scanner = Scanner::default();
        for chunk in chunks {
            scanner.scan(Stream::Stderr, chunk.as_bytes());
        }
        scanner
    }

    #[test]
    fn words_are_found_across_chunks_and_cases() {
        assert!(scan(&["x: PERMISSION", " Denied"]).found());
        assert!(scan(&["a\nseccom", "p\n"]).found());
        assert_eq!(scan(&["seccompermission denied"]).lines, ["seccompermission denied"]);
        assert!(!scan(&["permission\ndenied", "all good"]).found());
        let mut scanner = Scanner::default();
        scanner.scan(Stream::Stdout, b"permission ");
        scanner.scan(Stream::Stderr, b"denied");
        assert!(!scanner.found(), "two streams are two texts");
        assert_eq!(scan(&["sandbox", " again: sandbox", "\nsandbox"]).lines.len(), 3);
    }

    #[test]
    fn what_lies_between_is_not_left_out() {
        let long = "x".repeat(2 * MAX_LINE);
        assert!(!scan(&[&format!("sand{long}"), "box"]).found());
        assert!(!scan(&["some sand", &format!("{long}box")]).found());
        assert_eq!(
            scan(&["sand", &format!("box{long}sandbox\n"), &format!("{long}sand"), "BOX"]).lines.len(),
            3
        );
    }

    #[test]
    fn memory_is_bounded() {
        let scanner = scan(&[&"x".repeat(100_000), &"permission denied ".repeat(100), &"y".repeat(100_000)]);
        assert_eq!(scanner.lines.len(), MAX_LINES);
        assert!(scanner.lines.iter().all(|line| line.len() <= 3 * MAX_LINE));
        assert!(
            scanner.unfinished.iter().all(|text| text.len() <= MAX_LINE && text.capacity() <= 8 * MAX_LINE)
        );
    }

    #[test]
    fn the_port_that_is_named() {
        let port = |line: &str| scan(&[line]).network();
        assert_eq!(port("bash: connect: Permission denied"), Some(None));
        assert_eq!(port("bash: line 1: /dev/tcp/127.0.0.1/8080: Permission denied"), Some(Some(8080)));
        assert_eq!(
            port("curl: (7) Failed to connect to h port 443 after 0 ms: Permission denied"),
            Some(Some(443))
        );
        assert_eq!(port("dial tcp 10.0.0.1:22: connect: permission denied"), Some(Some(22)));
        assert_eq!(port("dial tcp [::1]:22: connect: permission denied"), Some(Some(22)));
        assert_eq!(port("socket: Operation not permitted"), Some(None));
        assert_eq!(
            port("bash: connect: Permission denied\nbash: /dev/tcp/::1/80: Permission denied"),
            Some(Some(80))
        );
        assert_eq!(port("bash: /dev/udp/127.0.0.1/53: Operation not permitted"), Some(None));
        assert_eq!(port("cat: /etc/shadow: Permission denied"), None);
        assert!(scan(&["chmod: Operation not permitted"]).call() && !scan(&["x: Permission denied"]).call());
    }

    #[test]
    fn the_path_that_is_named() {
        let path = |line: &str| {
            let scanner = scan(&[line]);
            let found = scanner.paths(Path::new("/cwd"), true).next();
            found.or_else(|| scanner.paths(Path::new("/cwd"), false).next())
        };
        let at = |path: &str, write| Some((PathBuf::from(path), write));
        assert_eq!(path("sh: 1: cannot create /etc/x: Permission denied\n"), at("/etc/x", true));
        assert_eq!(path("/bin/bash: line 1: /w/a b.txt: Permission denied"), at("/w/a b.txt", false));
        assert_eq!(path("cat: secret: Permission denied"), at("/cwd/secret", false));
        assert_eq!(path("touch: cannot touch '/etc/x y': Read-only file system"), at("/etc/x y", true));
        assert_eq!(path("mkdir: cannot create directory ‘/é’: Permission denied"), at("/é", true));
        assert_eq!(path("PermissionError: [Errno 13] Permission denied: '/root/k'"), at("/root/k", false));
        assert_eq!(path("seccomp says no"), None);
        assert_eq!(path("bash: /dev/tcp/127.0.0.1/8080: Permission denied"), None);
    }
}
