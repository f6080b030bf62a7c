//! What a file holds, copied to another one. Holes stay holes: a sparse file of a terabyte costs no more than its data.

use std::fs::File;
use std::io::{self, Read as _};

use rustix::fs::SeekFrom;
use rustix::io::Errno;

/// Copies the first `len` bytes. What is added meanwhile is left out, so a file that grows without end does not hold
/// anybody up; one that shrinks ends where it ends. `to` must be empty.
pub(super) fn copy_content(from: &File, to: &File, len: u64) -> io::Result<()> {
    let mut at = 0;
    while at < len {
        let Some(data) = next(from, SeekFrom::Data(at), at)? else { break };
        let Some(hole) = next(from, SeekFrom::Hole(data), len)? else { break };
        let wanted = hole.min(len).saturating_sub(data);
        rustix::fs::seek(from, SeekFrom::Start(data))?;
        rustix::fs::seek(to, SeekFrom::Start(data))?;
        let copied = io::copy(&mut from.take(wanted), &mut &*to)?;
        if copied < wanted {
            break;
        }
        at = hole.max(data);
    }
    // Where it ends with a hole.
    let end = from.metadata()?.len().min(len);
    if to.metadata()?.len() < end { to.set_len(end) } else { Ok(()) }
}

/// Where the next data or hole is; `None`: there is no more of the file. A file system that knows no holes has
/// `otherwise`.
fn next(file: &File, wanted: SeekFrom, otherwise: u64) -> io::Result<Option<u64>> {
    match rustix::fs::seek(file, wanted) {
        Ok(place) => Ok(Some(place)),
        Err(Errno::NXIO) => Ok(None),
        Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(Some(otherwise)),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileExt as _, MetadataExt as _};

    use super::*;

    #[test]
    fn data_and_holes_are_where_they_were() {
        let sparse = tempfile::tempfile().expect("a file");
        // A hole at the start, between, and at the end.
        for at in [1 << 20, 1 << 30] {
            sparse.write_all_at(b"data", at).expect("written");
        }
        sparse.set_len(1 << 40).expect("sized");
        let copy = tempfile::tempfile().expect("a file");
        copy_content(&sparse, &copy, 1 << 40).expect("copied");
        let seen = copy.metadata().expect("there");
        assert_eq!(seen.len(), 1 << 40);
        assert!(seen.blocks() < 1 << 12, "{} blocks", seen.blocks());
        for at in [1 << 20, 1 << 30] {
            let mut read = [0; 6];
            copy.read_exact_at(&mut read, at - 1).expect("read");
            assert_eq!(&read, b"\0data\0");
        }
        // No further than asked for, and no further than there is.
        for (asked, held) in [((1 << 20) + 2, (1 << 20) + 2), (u64::MAX >> 1, 1 << 40)] {
            let copy = tempfile::tempfile().expect("a file");
            copy_content(&sparse, &copy, asked).expect("copied");
            assert_eq!(copy.metadata().expect("there").len(), held);
        }
    }
}
