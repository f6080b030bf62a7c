//! The stock client's permissions, translated into trees. Nothing is dropped in silence: what cannot be enforced is
//! refused or listed.

use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::globs::Pattern;
use crate::landlock::Grant;
use crate::matches::Matches;
use crate::policy::{CarveOuts, Entry, EntryAccess, Options, Permissions, Place, TmpPolicy};
use crate::profile::Profile;
use crate::receipt::Unenforced;
use crate::resolve::{self, Tree};

/// What the permissions come to.
#[derive(Debug, Default)]
pub(crate) struct Translated {
    pub(crate) trees: Vec<Tree>,
    /// Denied places, to be cut out of the trees.
    pub(crate) denied: Vec<PathBuf>,
    /// Denied patterns, likewise.
    pub(crate) patterns: Vec<Pattern>,
    /// Directories that were looked into: what is new in them may be granted too.
    pub(crate) walked: Vec<PathBuf>,
    pub(crate) unenforced: Vec<Unenforced>,
    pub(crate) network: bool,
}

impl Translated {
    /// Whether nothing may be written.
    pub(crate) fn read_only(&self) -> bool {
        self.trees.iter().all(|t| t.grant != Grant::Write)
    }
}

/// Translates restricted permissions.
///
/// # Errors
/// [`Error::Refused`] names an entry that cannot be honoured; [`Error::Root`] a path that is missing.
pub(crate) fn translate(permissions: &Permissions, options: &Options) -> Result<Translated, Error> {
    let mut out = Translated { network: permissions.network, ..Translated::default() };
    let Some(entries) = &permissions.entries else {
        out.trees = widest(options);
        return Ok(out);
    };
    out.trees = resolve::device_trees(options);
    let mut reads = Vec::new();
    let mut read_patterns = Vec::new();
    for entry in entries {
        if let Place::Glob(text) = &entry.place {
            let pattern = Pattern::new(text, &permissions.cwd)?;
            match entry.access {
                EntryAccess::Write => {
                    let matches = matching(&pattern, Grant::Write, &mut out)?;
                    out.trees.extend(matches);
                }
                EntryAccess::Read => read_patterns.push(pattern),
                EntryAccess::Deny => out.patterns.push(pattern),
            }
            continue;
        }
        let places = places(entry, permissions, options, &mut out)?;
        match entry.access {
            EntryAccess::Write => out.trees.extend(places),
            EntryAccess::Read => reads.extend(places.into_iter().map(|t| (t, entry.skip_missing))),
            EntryAccess::Deny => denied(places, entry, &mut out)?,
        }
    }
    if !out.read_only() {
        out.trees.push(Tree {
            path: "/dev/shm".into(),
            grant: Grant::Write,
            from: "shared memory".into(),
            required: false,
        });
    }
    for pattern in read_patterns {
        let writable = out.trees.iter().any(|t| t.grant == Grant::Write && pattern.base.starts_with(&t.path));
        if writable {
            carve_out(&format!("glob_pattern {:?}", pattern.text), options, &mut out)?;
        } else {
            reads.extend(matching(&pattern, Grant::Read, &mut out)?.into_iter().map(|tree| (tree, true)));
        }
    }
    for (tree, skip_missing) in reads {
        add_read(tree, skip_missing, options, &mut out)?;
    }
    Ok(out)
}

/// A read entry inside a writable tree is a carve-out, which Landlock cannot express while new files stay creatable.
fn add_read(tree: Tree, skip_missing: bool, options: &Options, out: &mut Translated) -> Result<(), Error> {
    let mut writable = out.trees.iter().filter(|t| t.grant == Grant::Write);
    if writable.clone().any(|t| t.path == tree.path) {
        // An explicit write entry for the same path wins.
        return Ok(());
    }
    if !writable.any(|t| tree.path.starts_with(&t.path)) {
        out.trees.push(tree);
        return Ok(());
    }
    if tree.required && !skip_missing && !tree.path.exists() {
        return Err(missing(&tree));
    }
    carve_out(&tree.path.display().to_string(), options, out)
}

/// Declares that something stays writable, or refuses the launch for it.
fn carve_out(what: &str, options: &Options, out: &mut Translated) -> Result<(), Error> {
    if options.carve_outs == CarveOuts::Reject {
        return Err(Error::Refused(format!(
            "{what} is read-only inside a writable root, which cannot be enforced (carveOuts = \"reject\")"
        )));
    }
    out.unenforced.push(Unenforced {
        what: format!("read-only {what}"),
        why: "Landlock cannot take rights away inside a writable root".into(),
    });
    Ok(())
}

/// The trees that a pattern stands for now.
fn matching(pattern: &Pattern, grant: Grant, out: &mut Translated) -> Result<Vec<Tree>, Error> {
    let matches = Matches::find(pattern)?;
    out.walked.extend(matches.walked);
    out.unenforced.push(Unenforced {
        what: format!("{} access to new files that match {:?}", grant.name(), pattern.text),
        why: "Landlock grants what there is when the command starts".into(),
    });
    let from = format!("glob_pattern {:?}", pattern.text);
    let tree = |path| Tree { path, grant, from: from.clone(), required: false };
    Ok(matches.paths.into_iter().map(tree).collect())
}

fn missing(tree: &Tree) -> Error {
    Error::Root {
        role: tree.from.clone(),
        path: tree.path.clone(),
        source: std::io::Error::from_raw_os_error(libc::ENOENT),
    }
}

/// A denied place that is not there cannot be cut out: it is refused, or named where the entry says to skip it.
fn denied(places: Vec<Tree>, entry: &Entry, out: &mut Translated) -> Result<(), Error> {
    for tree in places {
        if !tree.path.exists() {
            if !entry.skip_missing {
                return Err(missing(&tree));
            }
            out.unenforced.push(Unenforced {
                what: format!("denied {}", tree.path.display()),
                why: "it does not exist, and missing_path_behavior is skip; once it does, later launches are denied it"
                    .into(),
            });
        }
        out.denied.push(tree.path);
    }
    Ok(())
}

fn places(
    entry: &Entry,
    permissions: &Permissions,
    options: &Options,
    out: &mut Translated,
) -> Result<Vec<Tree>, Error> {
    let grant = if entry.access == EntryAccess::Write { Grant::Write } else { Grant::Read };
    let named = |path: PathBuf, required: bool| Tree {
        path,
        grant,
        from: "a file_system entry".into(),
        required: required && !entry.skip_missing,
    };
    let (kind, subpath) = match &entry.place {
        Place::Path(path) => return Ok(vec![named(path.clone(), true)]),
        // Handled by its matches.
        Place::Glob(_) => return Ok(Vec::new()),
        Place::Special { kind, subpath } => (kind.as_str(), subpath.as_deref()),
    };
    let project_roots = || match permissions.workspace_roots.as_slice() {
        [] => vec![permissions.cwd.clone()],
        roots => roots.to_vec(),
    };
    let (bases, required) = match kind {
        "root" => return root(entry, options, out),
        "minimal" => return Ok(resolve::read_trees(&options.roots)),
        "current_working_directory" => (vec![permissions.cwd.clone()], true),
        "project_roots" => (project_roots(), true),
        // The launch gets a directory of its own instead.
        "tmpdir" | "slash_tmp" if options.tmp == TmpPolicy::Private => return Ok(Vec::new()),
        "tmpdir" | "slash_tmp" => (vec![options.roots.tmp.clone()], false),
        other => {
            out.unenforced.push(Unenforced {
                what: format!("special path {other:?} ({:?})", entry.access),
                why: "this server does not know the kind; the entry grants nothing".into(),
            });
            return Ok(Vec::new());
        }
    };
    bases.into_iter().map(|base| Ok(named(join(&base, subpath)?, required))).collect()
}

/// `root` stands for what the operator lets be read, or written.
fn root(entry: &Entry, options: &Options, out: &mut Translated) -> Result<Vec<Tree>, Error> {
    match entry.access {
        EntryAccess::Read => Ok(resolve::profile_trees(&Profile::ReadOnly, options)
            .into_iter()
            .filter(|t| t.grant == Grant::Read)
            .collect()),
        EntryAccess::Write => {
            out.unenforced.push(Unenforced {
                what: "write access to /".into(),
                why: "cut down to the operator's roots".into(),
            });
            Ok(widest(options))
        }
        EntryAccess::Deny => Err(Error::Refused("an entry denies /: nothing could be started".into())),
    }
}

/// As much as the operator grants at all: what the ceiling has, or the widest built-in profile below it.
fn widest(options: &Options) -> Vec<Tree> {
    let profile = match &options.ceiling {
        ceiling @ Profile::Custom(_) => ceiling,
        _ => &Profile::WorkspaceWrite,
    };
    resolve::profile_trees(profile, options)
}

fn join(base: &Path, subpath: Option<&str>) -> Result<PathBuf, Error> {
    let Some(subpath) = subpath else { return Ok(base.to_owned()) };
    let relative = Path::new(subpath);
    let plain = relative.components().all(|c| matches!(c, std::path::Component::Normal(_)));
    if !plain {
        return Err(Error::Refused(format!("subpath {subpath:?} must be relative and without . or ..")));
    }
    Ok(base.join(relative))
}
