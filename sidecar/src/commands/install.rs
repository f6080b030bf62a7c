//! `install`: copies this binary to where another container finds it. Needs no shell and no `cp`.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};

const OWN_NAME: &str = "sandbox-sidecar";

/// Comes along where it lies beside this binary.
const COMPANION: &str = "agent-client";

const MODE: u32 = 0o755;

/// Gives the files that were written. A directory as `destination`, or a path that ends in a slash, gets the files
/// under their own names.
pub(crate) fn install(destination: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let named_dir = destination.as_os_str().as_encoded_bytes().ends_with(b"/");
    let target = if named_dir || destination.is_dir() {
        fs::create_dir_all(destination).with_context(|| format!("cannot make {}", destination.display()))?;
        destination.join(OWN_NAME)
    } else {
        destination.to_owned()
    };
    let dir = match target.parent() {
        Some(dir) if dir != Path::new("") => dir,
        Some(_) => Path::new("."),
        None => return Err(anyhow!("{} is no file name", target.display())),
    };
    // Also right where the file was replaced or removed since it was started.
    let mut written = vec![copy(Path::new("/proc/self/exe"), &target, dir)?];
    let companion = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.join(COMPANION)));
    if let Some(companion) = companion.filter(|path| path.is_file()) {
        written.push(copy(&companion, &dir.join(COMPANION), dir)?);
    }
    Ok(written)
}

/// Whoever looks at the target sees the old file or the whole new one, never a part.
fn copy(source: &Path, target: &Path, dir: &Path) -> anyhow::Result<PathBuf> {
    let copied = || -> io::Result<()> {
        let mut temp = tempfile::NamedTempFile::new_in(dir)?;
        io::copy(&mut File::open(source)?, &mut temp)?;
        temp.as_file().set_permissions(Permissions::from_mode(MODE))?;
        temp.as_file().sync_all()?;
        // Closed before it has its name: a program that is open for writing cannot be executed.
        temp.into_temp_path().persist(target)?;
        Ok(())
    };
    copied().with_context(|| format!("cannot write {}", target.display()))?;
    Ok(target.to_owned())
}
