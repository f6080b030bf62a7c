//! The stock client's permissions, translated into trees. Nothing is dropped in silence: what cannot be enforced is
//! refused or listed.

use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::landlock::Grant;
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
    for entry in entries {
        let places = places(entry, permissions, options, &mut out)?;
        match entry.access {
            EntryAccess::Write => out.trees.extend(places),
            EntryAccess::Read => reads.extend(places.into_iter().map(|t| (t, entry.skip_missing))),
            EntryAccess::Deny => out.denied.extend(denied(places, entry)?),
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
    if options.carve_outs == CarveOuts::Reject {
        let path = &tree.path;
        return Err(Error::Refused(format!(
            "{path:?} is read-only inside a writable root, which cannot be enforced (carveOuts = \"reject\")"
        )));
    }
    if tree.required && !skip_missing && !tree.path.exists() {
        return Err(missing(&tree));
    }
    out.unenforced.push(Unenforced {
        what: format!("read-only {}", tree.path.display()),
        why: "Landlock cannot take rights away inside a writable root".into(),
    });
    Ok(())
}

fn missing(tree: &Tree) -> Error {
    Error::Root {
        role: tree.from.clone(),
        path: tree.path.clone(),
        source: std::io::Error::from_raw_os_error(libc::ENOENT),
    }
}

fn denied(places: Vec<Tree>, entry: &Entry) -> Result<Vec<PathBuf>, Error> {
    for tree in &places {
        if !entry.skip_missing && !tree.path.exists() {
            return Err(missing(tree));
        }
    }
    Ok(places.into_iter().map(|t| t.path).collect())
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
        Place::Glob(pattern) => {
            return Err(Error::Refused(format!(
                "glob_pattern {pattern:?} is not supported: Landlock grants trees; name the directory instead"
            )));
        }
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
