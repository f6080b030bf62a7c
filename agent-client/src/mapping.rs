//! Local root ↔ workspace root: which path here is which path there, both ways.
//!
//! Paths are compared by whole components after `.` and `..` are resolved; what is outside of a root has no
//! counterpart, and none is guessed. The rest of a path is carried over as it is, byte for byte. After
//! [`Mapping::new`] no file is looked at: a path need not exist on either side, so symlinks below the roots are left
//! for the side that has them.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use crate::error::Error;

/// A pair of roots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// As it was configured; what [`Mapping::to_local`] answers with.
    local_root: PathBuf,
    /// The same with its symlinks resolved, which is how the OS reports a cwd below it.
    resolved_root: PathBuf,
    workspace_root: Option<PathBuf>,
    /// The same as the server reports it, without symlinks, which is how it tells paths that it has resolved.
    reported_root: Option<PathBuf>,
    /// Where the server starts by default; stands in for the root alone where no workspace root is known.
    default_cwd: Option<PathBuf>,
}

impl Mapping {
    /// Pairs two absolute roots. The local one need not exist; where it does, its symlinks are resolved once.
    pub fn new(local_root: &Path, workspace_root: Option<&Path>) -> Self {
        let resolved_root = local_root.canonicalize().unwrap_or_else(|_| normalize(local_root));
        Self {
            local_root: normalize(local_root),
            resolved_root,
            workspace_root: workspace_root.map(normalize),
            reported_root: None,
            default_cwd: None,
        }
    }

    /// The directory that the server starts in, for a server that reports no workspace root.
    #[must_use]
    pub fn with_default_cwd(mut self, cwd: Option<&Path>) -> Self {
        self.default_cwd = cwd.map(normalize);
        self
    }

    /// The workspace root as the server reports it, where it may be another name of the same.
    #[must_use]
    pub fn with_reported_root(mut self, root: Option<&Path>) -> Self {
        self.reported_root = root.map(normalize);
        self
    }

    /// The directory here that the workspace root stands for.
    pub fn local_root(&self) -> &Path {
        &self.local_root
    }

    /// The path on the sidecar's side of an absolute local path.
    ///
    /// # Errors
    /// [`Error::OutsideRoot`], which names both roots; [`Error::WorkspaceRootUnknown`], which says what to set.
    pub fn to_workspace(&self, local: &Path) -> Result<PathBuf, Error> {
        let path = normalize(local);
        let relative = path
            .strip_prefix(&self.local_root)
            .or_else(|_| path.strip_prefix(&self.resolved_root))
            .map_err(|_| Error::OutsideRoot {
                path: path.clone(),
                local_root: self.local_root.clone(),
                workspace_root: self.workspace_root.clone(),
            })?;
        match (&self.workspace_root, &self.default_cwd) {
            (Some(root), _) => Ok(join(root, relative)),
            (None, Some(cwd)) if relative.as_os_str().is_empty() => Ok(cwd.clone()),
            (None, _) => Err(Error::WorkspaceRootUnknown { path, local_root: self.local_root.clone() }),
        }
    }

    /// The local path of an absolute path on the sidecar's side; `None` outside of the workspace root.
    pub fn to_local(&self, workspace: &Path) -> Option<PathBuf> {
        let path = normalize(workspace);
        let below = |root: &PathBuf| path.strip_prefix(root).ok();
        let relative =
            below(self.workspace_root.as_ref()?).or_else(|| self.reported_root.as_ref().and_then(below))?;
        Some(join(&self.local_root, relative))
    }
}

/// Joins without the trailing slash that `Path::join` adds for an empty path.
fn join(root: &Path, relative: &Path) -> PathBuf {
    if relative.as_os_str().is_empty() { root.to_owned() } else { root.join(relative) }
}

/// Resolves `.`, `..` and repeated slashes by the text alone, as [`Mapping`] compares paths. `..` at `/` stays there.
fn normalize(path: &Path) -> PathBuf {
    let mut out = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => out.push::<&OsStr>(name),
            Component::ParentDir => {
                out.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    use proptest::prelude::*;

    use super::*;

    fn mapping(local: &str, workspace: &str) -> Mapping {
        Mapping::new(Path::new(local), Some(Path::new(workspace)))
    }

    #[test]
    fn what_is_below_and_what_is_not() {
        let m = mapping("/nowhere/pro ject", "/ws");
        for (local, workspace) in [
            ("/nowhere/pro ject", Some("/ws")),
            ("/nowhere/pro ject/", Some("/ws")),
            ("/nowhere/pro ject/a b/ü", Some("/ws/a b/ü")),
            ("/nowhere/./x/../pro ject//a/./b/..", Some("/ws/a")),
            ("/nowhere/pro ject/..", None),
            ("/nowhere/pro ject/../pro jects/a", None),
            ("/nowhere/pro jecta", None),
            ("/nowhere", None),
            ("/", None),
        ] {
            assert_eq!(m.to_workspace(Path::new(local)).ok().as_deref(), workspace.map(Path::new), "{local}");
        }
        assert_eq!(m.to_local(Path::new("/ws/a b")), Some(PathBuf::from("/nowhere/pro ject/a b")));
        assert_eq!(m.to_local(Path::new("/wsx")), None);
        assert_eq!(m.to_local(Path::new("/ws/../etc")), None);
    }

    #[test]
    fn the_error_names_both_roots() {
        let text = mapping("/nowhere/a", "/ws").to_workspace(Path::new("/etc")).unwrap_err().to_string();
        assert!(text.contains("/etc") && text.contains("/nowhere/a") && text.contains("/ws"), "{text}");
    }

    #[test]
    fn without_a_workspace_root_only_the_root_itself_is_mapped() {
        let m = Mapping::new(Path::new("/nowhere"), None).with_default_cwd(Some(Path::new("/srv")));
        assert_eq!(m.to_workspace(Path::new("/nowhere")).unwrap(), Path::new("/srv"));
        let text = m.to_workspace(Path::new("/nowhere/a")).unwrap_err().to_string();
        assert!(text.contains("set workspace_root"), "{text}");
        assert!(Mapping::new(Path::new("/nowhere"), None).to_workspace(Path::new("/nowhere")).is_err());
        assert_eq!(m.to_local(Path::new("/srv")), None);
    }

    #[test]
    fn a_root_behind_a_symlink_is_known_by_both_names() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap().join("real");
        let link = dir.path().join("link");
        std::fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let m = Mapping::new(&link, Some(Path::new("/ws")));
        for root in [&link, &real] {
            assert_eq!(m.to_workspace(&root.join("a")).unwrap(), Path::new("/ws/a"));
        }
        assert_eq!(m.to_local(Path::new("/ws/a")), Some(link.join("a")));
    }

    #[test]
    fn what_the_server_has_resolved_is_mapped_back() {
        let m = mapping("/nowhere", "/link").with_reported_root(Some(Path::new("/real/ws")));
        assert_eq!(m.to_workspace(Path::new("/nowhere/a")).unwrap(), Path::new("/link/a"));
        for there in ["/link/a", "/real/ws/a"] {
            assert_eq!(m.to_local(Path::new(there)), Some(PathBuf::from("/nowhere/a")), "{there}");
        }
        assert_eq!(m.to_local(Path::new("/real/wsx")), None);
    }

    /// A file name: any bytes but NUL and slash, and neither `.` nor `..`.
    fn name() -> impl Strategy<Value = OsString> {
        proptest::collection::vec((1u8..=255).prop_filter("slash", |b| *b != b'/'), 1..6)
            .prop_filter("dots", |b| b != b"." && b != b"..")
            .prop_map(OsString::from_vec)
    }

    fn relative(depth: std::ops::Range<usize>) -> impl Strategy<Value = PathBuf> {
        proptest::collection::vec(name(), depth).prop_map(PathBuf::from_iter)
    }

    fn roots() -> impl Strategy<Value = (PathBuf, PathBuf)> {
        // A prefix that does not exist here, so that nothing of this machine's is resolved.
        (relative(0..4), relative(0..4))
            .prop_map(|(l, w)| (join(Path::new("/nowhere"), &l), join(Path::new("/"), &w)))
    }

    #[test]
    fn any_path_below_a_root_behind_a_symlink_has_two_names() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap().join("ré al");
        let link = dir.path().join("li nk");
        std::fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        proptest!(|(below in relative(0..5), (_, workspace) in roots())| {
            let m = Mapping::new(&link, Some(&workspace));
            let there = m.to_workspace(&link.join(&below)).unwrap();
            prop_assert_eq!(&m.to_workspace(&real.join(&below)).unwrap(), &there);
            prop_assert_eq!(m.to_local(&there), Some(normalize(&link.join(&below))));
        });
    }

    proptest! {
        #[test]
        fn there_and_back((local, workspace) in roots(), below in relative(0..5)) {
            let m = Mapping::new(&local, Some(&workspace));
            let there = m.to_workspace(&local.join(&below)).unwrap();
            prop_assert_eq!(&there, &normalize(&workspace.join(&below)));
            prop_assert_eq!(m.to_local(&there), Some(normalize(&local.join(&below))));
        }

        #[test]
        fn detours_change_nothing((local, workspace) in roots(), below in relative(1..5), detour in name()) {
            let m = Mapping::new(&local, Some(&workspace));
            let mut winding = local.clone();
            for part in &below {
                winding.push(".");
                winding.push(&detour);
                winding.push("..");
                winding.push(part);
            }
            prop_assert_eq!(m.to_workspace(&winding).unwrap(), m.to_workspace(&local.join(&below)).unwrap());
        }

        #[test]
        fn nothing_leaves_the_workspace((local, workspace) in roots(), ups in 0usize..8, below in relative(0..4)) {
            let m = Mapping::new(&local, Some(&workspace));
            let path = std::iter::repeat_n(PathBuf::from(".."), ups).fold(local.clone(), |p, up| p.join(up)).join(below);
            match m.to_workspace(&path) {
                Ok(there) => prop_assert!(there.starts_with(&workspace)),
                Err(_) => prop_assert!(!normalize(&path).starts_with(&local)),
            }
        }

        #[test]
        fn outside_is_an_error_that_names_both_roots((local, workspace) in roots(), elsewhere in relative(0..4)) {
            let path = join(Path::new("/elsewhere"), &elsewhere);
            let error = Mapping::new(&local, Some(&workspace)).to_workspace(&path).unwrap_err();
            let Error::OutsideRoot { local_root, workspace_root, .. } = error else { panic!("{error}") };
            prop_assert_eq!((local_root, workspace_root), (normalize(&local), Some(normalize(&workspace))));
            prop_assert_eq!(Mapping::new(&local, Some(Path::new("/ws"))).to_local(&path), None);
        }

        #[test]
        fn a_longer_name_is_another_name((local, workspace) in roots(), more in name()) {
            let m = Mapping::new(&local, Some(&workspace));
            let mut sibling = local.into_os_string();
            sibling.push(&more);
            prop_assert!(m.to_workspace(Path::new(&sibling)).is_err());
        }
    }
}
