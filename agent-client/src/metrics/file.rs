//! Metrics as a file, for the textfile collector of node_exporter: what a short-lived client leaves behind.

use std::fs::Permissions;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::Metrics;
use crate::error::Error;

/// Whoever collects runs as another user.
const MODE: u32 = 0o644;

/// Puts a whole file in the place of the old one. The collector reads `*.prom` alone, so it never meets the new one
/// before it is complete. Blocking.
///
/// # Errors
/// [`Error::MetricsFile`] names the file; [`Error::Metrics`].
pub fn write(metrics: &Metrics, path: &Path) -> Result<(), Error> {
    let text = metrics.render()?;
    replace(path, text.as_bytes()).map_err(|cause| Error::MetricsFile { path: path.to_owned(), cause })
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    };
    let mut file = tempfile::Builder::new()
        .prefix(".agent-client-")
        .suffix(".tmp")
        .permissions(Permissions::from_mode(MODE))
        .tempfile_in(directory)?;
    file.write_all(bytes)?;
    file.as_file().sync_data()?;
    file.persist(path).map_err(|e| e.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_file_is_replaced_and_nothing_else_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agent.prom");
        std::fs::write(&path, "old").unwrap();
        let metrics = Metrics::new();
        write(&metrics, &path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), metrics.render().unwrap());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        let error = write(&metrics, &dir.path().join("no/where.prom")).unwrap_err().to_string();
        assert!(error.contains("no/where.prom") && error.contains("metrics_file"), "{error}");
    }
}
