//! apply_patch and search.

use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use super::answer::{Answer, Failure, both};
use super::{Call, Server, arguments};
use crate::patch;
use crate::search::{DEFAULT_MATCHES, Query, search};

/// What apply_patch returns.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Patched {
    /// New files.
    added: Vec<String>,
    /// Files that have changed, by their new names.
    modified: Vec<String>,
    /// Files that have gone.
    deleted: Vec<String>,
}

/// What search returns.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Matches {
    /// The lines, by file.
    matches: Vec<Line>,
    /// Files that were searched.
    files: usize,
    /// Files that were not: binary, larger than 4 MiB, or unreadable.
    skipped: usize,
    /// Whether there may be more matches.
    truncated: bool,
}

/// A line that matches.
#[derive(Debug, Serialize, JsonSchema)]
struct Line {
    /// Its file, relative to the workspace root where it is below it.
    path: String,
    /// Its number.
    line: u64,
    /// The line, or the start of a long one.
    text: String,
}

impl Server {
    pub(super) async fn apply_patch(&self, arguments: arguments::ApplyPatch, call: &Call) -> Answer {
        let nothing = |error: &dyn std::fmt::Display| Failure::new(format!("Nothing was changed. {error}"));
        let patch = patch::parse(&arguments.patch).map_err(|error| nothing(&error))?;
        let files = self.place.files().within(call.sandbox.clone());
        let at = |path: &Path| Ok(self.place.there(&path.to_string_lossy()));
        let applied = patch::commit::commit(&patch, &files, at).await.map_err(|error| match error {
            patch::PatchError::NotRolledBack { .. } => Failure::new(error.to_string()),
            error => nothing(&error),
        })?;
        let names = |paths: &[std::path::PathBuf]| -> Vec<String> {
            paths.iter().map(|path| path.display().to_string()).collect()
        };
        let patched = Patched {
            added: names(&applied.added),
            modified: names(&applied.modified),
            deleted: names(&applied.deleted),
        };
        let mut text = "Success. Updated the following files:\n".to_owned();
        for (mark, paths) in [("A", &patched.added), ("M", &patched.modified), ("D", &patched.deleted)] {
            text.extend(paths.iter().map(|path| format!("{mark} {path}\n")));
        }
        both(text, &patched)
    }

    pub(super) async fn search(&self, arguments: arguments::Search, call: &Call) -> Answer {
        let bad = |error: crate::search::QueryError| Failure::new(error.to_string());
        let mut query =
            Query::new(&arguments.pattern, arguments.literal, arguments.ignore_case).map_err(bad)?;
        if let Some(glob) = &arguments.glob {
            query = query.in_files(glob).map_err(bad)?;
        }
        let query =
            query.at_most(arguments.limit.unwrap_or(DEFAULT_MATCHES)).in_all(arguments.include_ignored);
        let start = self.place.there(arguments.path.as_deref().unwrap_or("."));
        let files = self.place.files().within(call.sandbox.clone());
        let searching = search(&files, &start, &query);
        let found = tokio::select! {
            found = searching => found.map_err(|error| Failure::about(&self.place.told(&start), error))?,
            () = call.context.ct.cancelled() => return Err(Failure::new("cancelled by the client")),
        };
        let told = |path: &Path| match path.as_os_str().is_empty() {
            true => self.place.told(&start),
            false => self.place.told(&start.join(path)),
        };
        let matches = Matches {
            matches: found
                .matches
                .iter()
                .map(|found| Line { path: told(&found.path), line: found.line, text: found.text.clone() })
                .collect(),
            files: found.files,
            skipped: found.skipped,
            truncated: found.truncated,
        };
        let mut text: String =
            matches.matches.iter().map(|m| format!("{}:{}: {}\n", m.path, m.line, m.text)).collect();
        text += &format!(
            "[{} matches in {} files searched, {} skipped",
            matches.matches.len(),
            found.files,
            found.skipped
        );
        text += if found.truncated { "; there may be more: narrow path, glob or pattern]" } else { "]" };
        both(text, &matches)
    }
}
