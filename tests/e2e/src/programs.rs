//! Where the built programs are.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use serde_json::Value;

/// The built `sandbox-sidecar`.
pub fn sandbox_sidecar() -> PathBuf {
    program("sandbox-sidecar")
}

/// The built `agent-client`.
pub fn agent_client() -> PathBuf {
    program("agent-client")
}

/// The built hostile program of the attack suite.
pub fn hostile() -> PathBuf {
    program("hostile")
}

/// The built wrapper that fakes other kernels.
pub fn without_landlock() -> PathBuf {
    program("without_landlock")
}

/// `$E2E_BIN_DIR/NAME` where that is set, so that a run can be of programs built elsewhere; else the workspace's own,
/// built now if they are not up to date.
fn program(name: &str) -> PathBuf {
    if let Some(dir) = std::env::var_os("E2E_BIN_DIR") {
        let path = Path::new(&dir).join(name);
        assert!(path.is_file(), "E2E_BIN_DIR holds no {name}");
        return path;
    }
    let found = BUILT.iter().find(|path| path.file_name() == Some(OsStr::new(name)));
    found.unwrap_or_else(|| panic!("the workspace builds no program {name}")).clone()
}

static BUILT: LazyLock<Vec<PathBuf>> = LazyLock::new(|| {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--quiet", "--bins", "--package=sandbox-sidecar", "--package=agent-client"])
        .arg("--message-format=json")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(output.status.success(), "cargo build failed");
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .filter_map(|line| {
            serde_json::from_str::<Value>(line).ok()?["executable"].as_str().map(PathBuf::from)
        })
        .collect()
});
