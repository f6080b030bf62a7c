//! Patches in the format that models write: `*** Begin Patch` … `*** End Patch`, with files added, updated, moved and
//! deleted.
//!
//! | module | what it owns |
//! |---|---|
//! | [`parse`] | the text → [`Patch`] |
//! | [`apply`] | hunks and a text → the new text |
//! | [`commit`] | all files of a patch, or none |
//!
//! Nothing is written before every hunk has found its place.

pub mod apply;
pub mod commit;
pub mod parse;

use std::path::PathBuf;

pub use apply::{Misfit, apply};
pub use commit::{Applied, PatchError};
pub use parse::{ParseError, parse};

/// What a patch says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Patch {
    /// File by file, in order.
    pub changes: Vec<Change>,
}

/// What is to become of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A new file.
    Add {
        /// Where.
        path: PathBuf,
        /// All of it.
        content: String,
    },
    /// A file that goes.
    Delete {
        /// Which.
        path: PathBuf,
    },
    /// A file that changes.
    Update {
        /// Which.
        path: PathBuf,
        /// Its new name, where it gets one.
        move_to: Option<PathBuf>,
        /// What changes in it, from the top down. None, where it is only moved.
        hunks: Vec<Hunk>,
    },
}

/// One place of a file that changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hunk {
    /// The line of the patch that it starts at, from 1.
    pub at: usize,
    /// What follows `@@`: lines above the hunk, from the outermost to the innermost.
    pub context: Vec<String>,
    /// Its lines.
    pub lines: Vec<Line>,
    /// Whether its last line is the last one of the file.
    pub is_end_of_file: bool,
}

/// A line of a hunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// It is there, and stays.
    Keep(String),
    /// It is there, and goes.
    Remove(String),
    /// It is new.
    Add(String),
}

impl Hunk {
    /// The lines that the file must have.
    pub fn old(&self) -> Vec<&str> {
        let old = |line: &'_ Line| matches!(line, Line::Keep(_) | Line::Remove(_));
        self.lines.iter().filter(|line| old(line)).map(Line::text).collect()
    }
}

impl Line {
    /// Without its mark.
    pub fn text(&self) -> &str {
        match self {
            Line::Keep(text) | Line::Remove(text) | Line::Add(text) => text,
        }
    }
}
