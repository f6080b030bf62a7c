//! What `fs/open` opens: a file to read in blocks, or a new content that replaces the old one at the close.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, Stat};
use rustix::io::Errno;
use sidecar_protocol::ErrorKind;
use sidecar_protocol::frame::BlockResponse;
use sidecar_protocol::fs::OpenMode;

use super::attributes::Attributes;
use super::content::copy_content;
use super::error::{At as _, FsError, Result};
use super::temp::Temp;
use super::write::{NEW_FILE, Place, replaceable};
use super::{Confined, Symlinks, open};

/// Bytes of a block that are read, then encoded, at once.
const PART_BYTES: usize = (64 << 10) * BlockResponse::GROUP;

/// An open file. Opened, and put in its place, on a confined thread; its blocks may be read and written on any.
#[derive(Debug)]
pub(crate) enum Opened {
    Read { file: File, path: PathBuf },
    Replace(Box<Replacement>),
}

/// A new content, beside the file that it replaces. Dropped without [`Opened::close`], it leaves nothing behind.
#[derive(Debug)]
pub(crate) struct Replacement {
    place: Place,
    temp: Temp,
    /// Whether it can be renamed to its place.
    is_beside: bool,
    /// The file that was there at the open.
    old: Option<Stat>,
    attributes: Attributes,
    /// A block was lost: the content is not what the client meant.
    is_broken: bool,
}

impl Opened {
    pub(crate) fn open(
        confined: &Confined,
        path: &Path,
        mode: OpenMode,
        attributes: Attributes,
    ) -> Result<Opened> {
        match mode {
            OpenMode::Read => {
                let file = open::open(path, OFlags::RDONLY, Symlinks::Follow)?;
                let (file, _) = open::checked(file, path)?;
                Ok(Opened::Read { file, path: path.to_owned() })
            }
            OpenMode::Replace => {
                let new = Replacement::start(confined, path, attributes)?;
                Ok(Opened::Replace(Box::new(new)))
            }
        }
    }

    /// Puts up to `len` bytes into a response; fewer only where the file ends.
    pub(crate) fn read(&self, mut response: BlockResponse, offset: u64, len: usize) -> Result<Vec<u8>> {
        let (file, path) = match self {
            Opened::Read { file, path } => (file, path),
            Opened::Replace(new) => {
                return Err(FsError::wrong_type(&new.place.path, "the handle is open to replace the file"));
            }
        };
        let mut part = vec![0; PART_BYTES.min(len)];
        let mut read = 0;
        while read < len {
            let wanted = PART_BYTES.min(len - read);
            let filled = fill(file, &mut part[..wanted], offset.saturating_add(read as u64)).at(path)?;
            response.push(&part[..filled]);
            read += filled;
            if filled < wanted {
                break;
            }
        }
        Ok(response.finish(read < len))
    }

    pub(crate) fn write(&mut self, offset: u64, block: &[u8]) -> Result<()> {
        match self {
            Opened::Read { path, .. } => {
                Err(FsError::wrong_type(path, "the handle is open to read the file"))
            }
            Opened::Replace(new) => {
                let written = new.temp.file.write_all_at(block, offset).writing(&new.place.path);
                new.is_broken |= written.is_err();
                written
            }
        }
    }

    /// Puts a new content in its place.
    pub(crate) fn close(self, _: &Confined) -> Result<()> {
        match self {
            Opened::Read { .. } => Ok(()),
            Opened::Replace(new) => new.finish(),
        }
    }
}

/// Reads from an offset; less than there is room for only where the file ends.
fn fill(file: &File, part: &mut [u8], offset: u64) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < part.len() {
        match file.read_at(&mut part[filled..], offset.saturating_add(filled as u64)) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}

impl Replacement {
    fn start(confined: &Confined, path: &Path, attributes: Attributes) -> Result<Replacement> {
        let place = Place::find(path, Symlinks::Follow)?;
        let old = place.stat()?;
        // Whoever may not write the file learns it now, not at the close.
        let mode = if old.is_some() { place.open().map(|_| Mode::RUSR | Mode::WUSR)? } else { NEW_FILE };
        let (temp, is_beside) = match Temp::beside(&place.dir, mode).writing(&place.path)? {
            Some(temp) => (temp, true),
            // The content is copied to its place at the close.
            None if old.is_some() => {
                let tmp = &confined.sandbox().options().roots.tmp;
                let dir = open::directory(CWD, tmp, tmp, OFlags::empty())?;
                (Temp::new(&dir, Mode::RUSR | Mode::WUSR).writing(tmp)?, false)
            }
            // Once more, for the error.
            None => (Temp::new(&place.dir, mode).writing(&place.path)?, true),
        };
        Ok(Replacement { place, temp, is_beside, old, attributes, is_broken: false })
    }

    /// As `fs/writeFile` does it: by a rename where that changes nothing else, in place otherwise.
    fn finish(mut self) -> Result<()> {
        let path = &self.place.path;
        if self.is_broken {
            let message = "not replaced: a block could not be written";
            return Err(FsError::refused(path, ErrorKind::Os, message));
        }
        let Some(stat) = self.place.stat()? else { return self.appear() };
        let file = self.place.open()?;
        if self.is_beside
            && replaceable(&file, &stat)
            && self.place.swap(&stat, &mut self.temp, &self.attributes)?
        {
            return Ok(());
        }
        file.set_len(0).writing(path)?;
        let len = self.temp.file.metadata().writing(path)?.len();
        copy_content(&self.temp.file, &file, len).writing(path)?;
        self.attributes.apply(&file).writing(path)
    }

    /// There is no old file, or no more.
    fn appear(mut self) -> Result<()> {
        if !self.is_beside {
            return Err(Errno::NOENT).writing(&self.place.path);
        }
        if let Some(old) = &self.old {
            self.temp.resemble(old).writing(&self.place.path)?;
        }
        self.attributes.apply(&self.temp.file).writing(&self.place.path)?;
        self.temp.rename_to(&self.place.name).writing(&self.place.path)
    }
}
