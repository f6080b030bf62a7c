//! What a pattern matches right now. It follows no symlink.

use std::io;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::globs::{Pattern, State};

/// Most directories that are looked into for one pattern.
const MAX_DIRECTORIES: usize = 4096;
/// Most matches of one pattern; each becomes a rule.
const MAX_MATCHES: usize = 1024;

/// The matches of one pattern.
#[derive(Debug, Default)]
pub(crate) struct Matches {
    /// Files and directories; nothing below a directory that matches.
    pub(crate) paths: Vec<PathBuf>,
    /// The directories that were looked into: what is new in them may match too.
    pub(crate) walked: Vec<PathBuf>,
}

impl Matches {
    /// Looks for them, in an order of its own.
    ///
    /// # Errors
    /// [`Error::Refused`] where there are too many, or too many places to look for them.
    pub(crate) fn find(pattern: &Pattern) -> Result<Matches, Error> {
        let mut found = Matches::default();
        let mut open = vec![(pattern.base.clone(), pattern.start())];
        while let Some((dir, state)) = open.pop() {
            if found.walked.len() >= MAX_DIRECTORIES || found.paths.len() > MAX_MATCHES {
                return Err(Error::Refused(format!(
                    "glob_pattern {:?} takes a look into more than {MAX_DIRECTORIES} directories, or has more than \
                     {MAX_MATCHES} matches; name a directory instead",
                    pattern.text
                )));
            }
            // A directory that is not there, or that nobody can list, has no matches.
            found.look_into(&dir, &state, pattern, &mut open).unwrap_or_default();
            found.walked.push(dir);
        }
        Ok(found)
    }

    fn look_into(
        &mut self,
        dir: &Path,
        state: &State,
        pattern: &Pattern,
        open: &mut Vec<(PathBuf, State)>,
    ) -> io::Result<()> {
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            let next = pattern.step(state, &entry.file_name());
            if kind.is_symlink() {
                continue;
            }
            if pattern.matched(&next) {
                self.paths.push(entry.path());
            } else if kind.is_dir() && pattern.goes_on(&next) {
                open.push((entry.path(), next));
            }
        }
        Ok(())
    }
}
