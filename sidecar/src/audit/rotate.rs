//! A file of records that is renamed away when it is full: PATH, PATH.1, PATH.2 and so on, the newest first.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use crate::config::rotated;

#[derive(Debug)]
pub(super) struct Rotating {
    path: PathBuf,
    max_bytes: u64,
    keep: usize,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    file: File,
    bytes: u64,
}

impl Rotating {
    pub(super) fn open(path: PathBuf, max_bytes: u64, keep: usize) -> io::Result<Rotating> {
        let mut rotating = Rotating { path, max_bytes, keep, open: None };
        rotating.opened()?;
        Ok(rotating)
    }

    pub(super) fn close(&mut self) {
        self.open = None;
    }

    pub(super) fn write(&mut self, line: &[u8]) -> io::Result<()> {
        let max = self.max_bytes;
        let open = self.opened()?;
        // A line that is too long for any file gets one of its own.
        if open.bytes > 0 && open.bytes + line.len() as u64 > max {
            self.rotate()?;
        }
        let open = self.opened()?;
        if let Err(e) = open.file.write_all(line) {
            // No part of it may stay: the next line would be glued to it. A full disk lets a file shrink.
            let _ = open.file.set_len(open.bytes);
            return Err(e);
        }
        open.bytes += line.len() as u64;
        Ok(())
    }

    fn opened(&mut self) -> io::Result<&mut Open> {
        if self.open.is_none() {
            let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path)?;
            let bytes = file.metadata()?.len();
            self.open = Some(Open { file, bytes });
        }
        self.open.as_mut().ok_or_else(|| io::Error::other("unreachable: it was opened above"))
    }

    fn rotate(&mut self) -> io::Result<()> {
        if self.keep == 0 {
            return self.opened()?.truncate();
        }
        for number in (1..self.keep).rev() {
            match fs::rename(rotated(&self.path, number), rotated(&self.path, number + 1)) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
        fs::rename(&self.path, rotated(&self.path, 1))?;
        self.open = None;
        Ok(())
    }
}

impl Open {
    fn truncate(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.bytes = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_files_are_kept_and_no_line_is_split() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("audit.log");
        let mut file = Rotating::open(path.clone(), 10, 2).expect("opened");
        for line in ["aaaa\n", "bbbb\n", "cccc\n", "a long line by itself\n", "dddd\n"] {
            file.write(line.as_bytes()).expect("written");
        }
        let text = |path: PathBuf| fs::read_to_string(path).expect("there");
        assert_eq!(text(path.clone()), "dddd\n");
        assert_eq!(text(rotated(&path, 1)), "a long line by itself\n");
        assert_eq!(text(rotated(&path, 2)), "cccc\n");
        assert!(!rotated(&path, 3).exists(), "the oldest goes");
    }

    #[test]
    fn a_restart_appends_and_a_moved_file_is_made_anew() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("audit.log");
        fs::write(&path, "old\n").expect("written");
        let mut file = Rotating::open(path.clone(), 100, 2).expect("opened");
        file.write(b"new\n").expect("written");
        assert_eq!(fs::read_to_string(&path).expect("there"), "old\nnew\n");
        fs::rename(&path, dir.path().join("moved")).expect("moved");
        file.close();
        file.write(b"next\n").expect("written");
        assert_eq!(fs::read_to_string(&path).expect("there"), "next\n");
    }
}
