//! Lines of files on the sidecar's side that match a pattern, without what `.gitignore` leaves out. The files are read from
//! here: it needs no program there.

use std::path::{Path, PathBuf};

use futures_util::stream::{self, StreamExt as _};
use globset::{Glob, GlobMatcher};
use regex::bytes::{Regex, RegexBuilder};

use crate::error::Error;
use crate::filesystem::Filesystem;
use crate::transfer::tree::Node;
use crate::transfer::{RemoteSide, Rules};

/// Matches that are given by default.
pub const DEFAULT_MATCHES: usize = 100;
/// Most matches that are given.
pub const MAX_MATCHES: usize = 1000;
/// Larger files are skipped, bytes: they are data rather than text.
pub const MAX_FILE_BYTES: u64 = 4 << 20;
/// All that one search reads, bytes.
pub const MAX_TOTAL_BYTES: u64 = 256 << 20;
/// Of a longer line its start is given, characters.
pub const MAX_LINE_CHARS: usize = 400;
/// Files that are read at once.
const READS: usize = 16;
/// A NUL byte within so many first ones marks a binary file, as git has it.
const BINARY_PREFIX: usize = 8000;

/// What to look for, and where.
#[derive(Debug, Clone)]
pub struct Query {
    pattern: Regex,
    glob: Option<GlobMatcher>,
    max_matches: usize,
    all: bool,
}

/// Why there is no such search.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// The pattern.
    #[error("pattern: {0}; for a text as it stands set literal")]
    Pattern(#[from] regex::Error),
    /// The glob.
    #[error("glob: {0}")]
    Glob(#[from] globset::Error),
}

impl Query {
    /// Lines that match a regular expression, or with `literal` hold that text.
    ///
    /// # Errors
    /// [`QueryError`]: it is no regular expression, or too large a one.
    pub fn new(pattern: &str, literal: bool, ignore_case: bool) -> Result<Self, QueryError> {
        let pattern = if literal { regex::escape(pattern) } else { pattern.to_owned() };
        let pattern = RegexBuilder::new(&pattern).case_insensitive(ignore_case).multi_line(true).build()?;
        Ok(Self { pattern, glob: None, max_matches: DEFAULT_MATCHES, all: false })
    }

    /// In files alone whose path below the start matches; a glob without a slash goes by the name.
    ///
    /// # Errors
    /// [`QueryError`]: it is no glob.
    pub fn in_files(mut self, glob: &str) -> Result<Self, QueryError> {
        let glob = if glob.contains('/') { glob.to_owned() } else { format!("**/{glob}") };
        self.glob = Some(Glob::new(&glob)?.compile_matcher());
        Ok(self)
    }

    /// Another number of matches, [`MAX_MATCHES`] at most.
    #[must_use]
    pub fn at_most(mut self, matches: usize) -> Self {
        self.max_matches = matches.clamp(1, MAX_MATCHES);
        self
    }

    /// In all files, those too that `.gitignore` leaves out.
    #[must_use]
    pub fn in_all(mut self, all: bool) -> Self {
        self.all = all;
        self
    }
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// In the order of paths and lines.
    pub matches: Vec<Match>,
    /// Files that were read.
    pub files: usize,
    /// Files that were not: too large, binary, unreadable.
    pub skipped: usize,
    /// Whether there may be more.
    pub truncated: bool,
}

/// A line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    /// Its file, below the start of the search; empty where that is the file.
    pub path: PathBuf,
    /// From 1.
    pub line: u64,
    /// The line, or its start.
    pub text: String,
}

/// Searches a file, or a tree.
///
/// # Errors
/// [`Error`]: the start cannot be looked at, or the connection is lost. What cannot be read below it is skipped.
pub async fn search(files: &Filesystem, start: &Path, query: &Query) -> Result<Found, Error> {
    let side = RemoteSide::new(files.clone(), start.to_owned());
    let listing = side.list(&mut Rules::new(!query.all)).await?;
    let mut found = Found { skipped: listing.skipped.len(), ..Found::default() };
    let mut wanted = Vec::new();
    let mut bytes = 0;
    for (path, node) in listing.nodes {
        let Node::File { size, .. } = node else { continue };
        if query.glob.as_ref().is_some_and(|glob| !path.as_os_str().is_empty() && !glob.is_match(&path)) {
            continue;
        }
        if size > MAX_FILE_BYTES {
            found.skipped += 1;
        } else if bytes + size > MAX_TOTAL_BYTES {
            found.truncated = true;
            break;
        } else {
            bytes += size;
            wanted.push(path);
        }
    }
    let read = |path: PathBuf| async {
        let content = files.read_small(&side.at(&path)).await;
        (path, content)
    };
    let mut contents = stream::iter(wanted).map(read).buffered(READS);
    while let Some((path, content)) = contents.next().await {
        match content {
            Ok(content) if !is_binary(&content) => {
                found.files += 1;
                if !lines(&content, path, query, &mut found.matches) {
                    found.truncated = true;
                    break;
                }
            }
            Ok(_) | Err(Error::Rpc { .. }) => found.skipped += 1,
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

fn is_binary(content: &[u8]) -> bool {
    content.iter().take(BINARY_PREFIX).any(|byte| *byte == 0)
}

/// Adds the lines that match; false, where there are more than are wanted.
fn lines(content: &[u8], path: PathBuf, query: &Query, matches: &mut Vec<Match>) -> bool {
    for (index, line) in content.split(|byte| *byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if !query.pattern.is_match(line) {
            continue;
        }
        if matches.len() == query.max_matches {
            return false;
        }
        let text = String::from_utf8_lossy(line);
        let mut start: String = text.chars().take(MAX_LINE_CHARS).collect();
        if start.len() < text.len() {
            start.push('…');
        }
        matches.push(Match { path: path.clone(), line: index as u64 + 1, text: start });
    }
    true
}
