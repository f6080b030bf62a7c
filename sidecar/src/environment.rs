//! What the server tells clients about itself: the environment info.

use std::path::Path;

use sidecar_protocol::WirePath;
use sidecar_protocol::path::Spelling;
use sidecar_protocol::session::{Capabilities, EnvironmentInfo, Limits, Shell, SidecarInfo};
use sidecar_sandbox::Sandbox;

use crate::VERSION;
use crate::config::Config;

/// In order of preference.
const SHELLS: [(&str, &str); 4] =
    [("bash", "/bin/bash"), ("bash", "/usr/bin/bash"), ("sh", "/bin/sh"), ("sh", "/usr/bin/sh")];

/// The same for every client.
pub(crate) fn info(config: &Config, sandbox: &Sandbox) -> EnvironmentInfo {
    let uri = |path: &Path| WirePath::new(path, Spelling::Uri);
    let roots = &config.sandbox.roots;
    let limits = &config.limits;
    EnvironmentInfo {
        shell: shell(),
        cwd: uri(&roots.workspace),
        user_home_dir: roots.home.as_deref().map(uri),
        temp_dir: uri(&roots.tmp),
        temporary_directories: Vec::new(),
        platform_os: String::from("linux"),
        executor_version: VERSION.to_owned(),
        prepend_path_dirs: Vec::new(),
        capabilities: Capabilities {
            fs_watch_missing: true,
            file_write_streaming: true,
            sandboxed_file_streaming: true,
            ..Capabilities::default()
        },
        sidecar: Some(SidecarInfo {
            version: VERSION.to_owned(),
            workspace_root: uri(&roots.workspace),
            landlock_abi: sandbox.kernel().abi,
            profiles: config.sandbox.offered().map(|profile| profile.name().to_owned()).collect(),
            default_profile: config.sandbox.default.name().to_owned(),
            limits: Limits {
                message_bytes: limits.message_bytes as u64,
                retained_bytes: limits.retained_bytes as u64,
                retained_chunks: limits.retained_chunks as u64,
                processes: limits.processes as u64,
                detached_ttl_seconds: limits.detached_ttl.as_secs(),
            },
        }),
    }
}

fn shell() -> Shell {
    let (name, path) =
        SHELLS.into_iter().find(|(_, path)| Path::new(path).exists()).unwrap_or(("sh", "/bin/sh"));
    Shell { name: name.to_owned(), path: path.to_owned() }
}
