//! Glob patterns over paths, component by component, so that besides whether a path matches it can be told whether
//! anything below it could. It touches no file.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

use crate::error::Error;
use crate::explain;

/// `*`, `?` and `[…]` stay within a component, `{a,b}` too; `**` is any number of components.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    /// As it came.
    pub(crate) text: String,
    /// What comes before the first component with a meta character, symlinks resolved.
    pub(crate) base: PathBuf,
    parts: Vec<Part>,
}

#[derive(Debug, Clone)]
enum Part {
    AnyDepth,
    One(GlobMatcher),
}

/// Where a walk along a path stands: the parts that may come next.
#[derive(Debug, Clone)]
pub(crate) struct State(Vec<usize>);

/// Longest pattern, bytes, and most components of one; a client's own patterns are far below.
const MAX_TEXT: usize = 1024;
const MAX_PARTS: usize = 64;

impl Pattern {
    /// A relative pattern is relative to `cwd`.
    ///
    /// # Errors
    /// [`Error::Refused`] names the pattern and what is wrong with it.
    pub(crate) fn new(text: &str, cwd: &Path) -> Result<Pattern, Error> {
        let refuse = |why: String| Error::Refused(format!("glob_pattern {text:?}: {why}"));
        let absolute = cwd.join(text);
        let Some(absolute) = absolute.to_str().filter(|_| text.len() <= MAX_TEXT) else {
            return Err(refuse(format!("it must be UTF-8, and no longer than {MAX_TEXT} bytes")));
        };
        let mut base = PathBuf::from("/");
        let mut parts = Vec::new();
        for component in absolute.split('/').filter(|c| !c.is_empty()) {
            if matches!(component, "." | "..") {
                return Err(refuse("it must be without . and ..".into()));
            }
            if parts.is_empty() && !component.contains(['*', '?', '[', '{', '\\']) {
                base.push(component);
            } else if component == "**" {
                parts.push(Part::AnyDepth);
            } else {
                // A brace or class that spans components is no pattern of one.
                let glob = GlobBuilder::new(component).literal_separator(true).backslash_escape(true).build();
                parts.push(Part::One(glob.map_err(|e| refuse(e.kind().to_string()))?.compile_matcher()));
            }
        }
        if let Some(Part::AnyDepth) = parts.last() {
            // `a/**` is everything below a, and not a itself.
            parts.push(Part::One(any_name().map_err(|e| refuse(e.to_string()))?));
        }
        if parts.len() > MAX_PARTS {
            return Err(refuse(format!("more than {MAX_PARTS} components")));
        }
        Ok(Pattern { text: text.to_owned(), base: explain::resolve(&base), parts })
    }

    /// At [`Pattern::base`].
    pub(crate) fn start(&self) -> State {
        self.closed(vec![0])
    }

    /// One component further.
    pub(crate) fn step(&self, state: &State, name: &OsStr) -> State {
        let next = state.0.iter().filter_map(|at| match self.parts.get(*at)? {
            Part::AnyDepth => Some(*at),
            Part::One(glob) => glob.is_match(name).then_some(at + 1),
        });
        self.closed(next.collect())
    }

    /// Whether the path so far matches.
    pub(crate) fn matched(&self, state: &State) -> bool {
        state.0.contains(&self.parts.len())
    }

    /// Whether something below the path so far could match.
    pub(crate) fn goes_on(&self, state: &State) -> bool {
        state.0.iter().any(|at| *at < self.parts.len())
    }

    /// `**` may stand for nothing.
    fn closed(&self, mut state: Vec<usize>) -> State {
        let mut at = 0;
        while let Some(part) = state.get(at).copied() {
            if matches!(self.parts.get(part), Some(Part::AnyDepth)) && !state.contains(&(part + 1)) {
                state.push(part + 1);
            }
            at += 1;
        }
        state.sort_unstable();
        state.dedup();
        State(state)
    }
}

fn any_name() -> Result<GlobMatcher, globset::Error> {
    Ok(globset::Glob::new("*")?.compile_matcher())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether it matches, and whether something below could.
    fn look(pattern: &str, path: &str) -> (bool, bool) {
        let pattern = Pattern::new(pattern, Path::new("/no-such-cwd")).unwrap();
        let rest = Path::new(path).strip_prefix(&pattern.base).unwrap();
        let state = rest.iter().fold(pattern.start(), |state, name| pattern.step(&state, name));
        (pattern.matched(&state), pattern.goes_on(&state))
    }

    #[test]
    fn components_and_depth() {
        for (pattern, path, expected) in [
            ("/no-ws/*.pem", "/no-ws", (false, true)),
            ("/no-ws/*.pem", "/no-ws/a.pem", (true, false)),
            ("/no-ws/*.pem", "/no-ws/.pem", (true, false)),
            ("/no-ws/*.pem", "/no-ws/d", (false, false)),
            ("/no-ws/**/*.pem", "/no-ws/a.pem", (true, true)),
            ("/no-ws/**/*.pem", "/no-ws/a/b/c.pem", (true, true)),
            ("/no-ws/**/*.pem", "/no-ws/a/b", (false, true)),
            ("/no-ws/**/k/*", "/no-ws/a/k", (false, true)),
            ("/no-ws/**/k/*", "/no-ws/k/x", (true, true)),
            ("/no-ws/**", "/no-ws", (false, true)),
            ("/no-ws/**", "/no-ws/a/b", (true, true)),
            ("/no-ws/{a,b}/[xy]?", "/no-ws/b/y1", (true, false)),
            ("/no-ws/{a,b}/[xy]?", "/no-ws/c", (false, false)),
            ("*.key", "/no-such-cwd/a.key", (true, false)),
            ("/no-ws/\\*", "/no-ws/*", (true, false)),
            ("/no-ws/\\*", "/no-ws/a", (false, false)),
        ] {
            assert_eq!(look(pattern, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn what_is_no_pattern_is_named() {
        for text in ["/a/[", "/a/{b/c,d}", "/a/*/../b", &format!("/{}", "a/".repeat(600)), &"*/".repeat(100)]
        {
            let error = Pattern::new(text, Path::new("/")).unwrap_err().to_string();
            assert!(error.starts_with(&format!("glob_pattern {text:?}: ")), "{error}");
        }
    }
}
