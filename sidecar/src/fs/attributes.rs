//! Mode and time that a client gives a file which it writes. They are set on the descriptor that the content went
//! through, before the file gets its name where that can be.

use std::fs::File;

use rustix::fs::{Mode, Timespec, Timestamps, UTIME_OMIT};

/// What a written file is to have beside its content; nothing by default.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Attributes {
    /// Permission bits, whatever the umask.
    pub(crate) permissions: Option<u32>,
    /// The time of the last change, milliseconds since 1970.
    pub(crate) modified_at_ms: Option<i64>,
}

impl Attributes {
    /// Sets them; the time last, after all that was written.
    pub(super) fn apply(&self, file: &File) -> rustix::io::Result<()> {
        if let Some(permissions) = self.permissions {
            rustix::fs::fchmod(file, permission_bits(permissions))?;
        }
        if let Some(ms) = self.modified_at_ms {
            let last_access = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
            let last_modification =
                Timespec { tv_sec: ms.div_euclid(1000), tv_nsec: ms.rem_euclid(1000) * 1_000_000 };
            rustix::fs::futimens(file, &Timestamps { last_access, last_modification })?;
        }
        Ok(())
    }
}

/// The bits for reading, writing and executing, and no other: no file becomes setuid by being written.
pub(super) fn permission_bits(permissions: u32) -> Mode {
    Mode::from_raw_mode(permissions & 0o777)
}
