//! Keeps the low descriptor numbers free for the next launch. Its shim copies the table up to the highest number that it
//! keeps: were those of all live launches below it, each launch would cost more than the one before.

use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use crate::command::Io;
use crate::sys;

/// To copy fewer than that costs no more than to set them aside.
const CROWDED: i32 = 128;

/// Where what is held for long goes. The table has a word for each number up to the highest one.
const ASIDE: i32 = 1024;

/// Gives a descriptor a high number, where the limit on open files (RLIMIT_NOFILE) leaves room for that.
pub(crate) fn set_aside(fd: &mut OwnedFd) {
    if (CROWDED..ASIDE).contains(&fd.as_raw_fd())
        && let Ok(aside) = sys::dup_from(fd.as_fd(), ASIDE)
    {
        *fd = aside;
    }
}

impl Io {
    /// See [`set_aside`].
    pub(crate) fn set_aside(&mut self) {
        match self {
            Io::Pipes { stdin, stdout, stderr } => {
                stdin.iter_mut().chain([stdout, stderr]).for_each(set_aside);
            }
            Io::Pty(master) => set_aside(master),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn only_what_is_in_the_way_gets_a_high_number() {
        let null = || OwnedFd::from(File::open("/dev/null").expect("it is there"));
        let mut many: Vec<OwnedFd> = (0..2 * CROWDED).map(|_| null()).collect();
        let before: Vec<i32> = many.iter().map(OwnedFd::as_raw_fd).collect();
        many.iter_mut().for_each(set_aside);
        for (fd, before) in many.iter().zip(before) {
            if before < CROWDED {
                assert_eq!(fd.as_raw_fd(), before);
            } else {
                assert!(fd.as_raw_fd() >= ASIDE, "{before} became {fd:?}");
            }
            assert!(File::from(fd.try_clone().expect("open")).metadata().is_ok());
        }
    }
}
