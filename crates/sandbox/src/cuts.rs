//! What is cut out of granted trees: protected and denied places, by path and by pattern.

use std::path::{Path, PathBuf};

use crate::globs::Pattern;

/// Everything that one layer must not grant.
#[derive(Debug, Default)]
pub(crate) struct Cuts {
    /// Canonical.
    pub(crate) places: Vec<PathBuf>,
    pub(crate) patterns: Vec<Pattern>,
}

/// How a path stands to the cuts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Nothing at or below it is cut out.
    Free,
    /// Something below it is, or would be if it were there: the path or the pattern.
    Below(String),
    /// It is cut out itself, by that path or pattern.
    Out(String),
}

impl Cuts {
    /// How a canonical path stands to them.
    pub(crate) fn of(&self, path: &Path) -> Cut {
        let mut below = None;
        for place in &self.places {
            if path.starts_with(place) {
                return Cut::Out(place.display().to_string());
            }
            if place.starts_with(path) {
                below.get_or_insert_with(|| place.display().to_string());
            }
        }
        for pattern in &self.patterns {
            match by_pattern(pattern, path) {
                Cut::Free => {}
                Cut::Below(text) => drop(below.get_or_insert(text)),
                out @ Cut::Out(_) => return out,
            }
        }
        below.map_or(Cut::Free, Cut::Below)
    }
}

fn by_pattern(pattern: &Pattern, path: &Path) -> Cut {
    let Ok(rest) = path.strip_prefix(&pattern.base) else {
        let leads_there = pattern.base.starts_with(path);
        return if leads_there { Cut::Below(pattern.text.clone()) } else { Cut::Free };
    };
    let mut state = pattern.start();
    for name in rest {
        state = pattern.step(&state, name);
        if pattern.matched(&state) {
            return Cut::Out(pattern.text.clone());
        }
    }
    if pattern.goes_on(&state) { Cut::Below(pattern.text.clone()) } else { Cut::Free }
}
