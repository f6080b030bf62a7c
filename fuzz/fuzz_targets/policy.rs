//! A request's `sandbox`: translated, prepared by the kernel's means, and never beyond the ceiling.

#![no_main]

use std::cell::RefCell;
use std::fs;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use sidecar_protocol::process::Sandbox as Wire;
use sidecar_sandbox::{Options, Roots, Sandbox};
use tempfile::TempDir;

struct World {
    sandbox: Sandbox,
    dir: TempDir,
}

impl World {
    fn new() -> World {
        let dir = tempfile::tempdir().expect("a directory");
        for name in ["ws/.git", "ws/secret", "tmp", "outside"] {
            fs::create_dir_all(dir.path().join(name)).expect(name);
        }
        let roots = Roots {
            workspace: dir.path().join("ws"),
            home: None,
            tmp: dir.path().join("tmp"),
            read_roots: vec![],
            write_roots: vec![],
            protected: vec![dir.path().join("ws/secret")],
        };
        World { sandbox: Sandbox::start(Options::new(roots)).expect("the sandbox starts"), dir }
    }
}

thread_local!(static WORLD: RefCell<World> = RefCell::new(World::new()));

fuzz_target!(|text: &str| {
    WORLD.with_borrow(|world| {
        let root = world.dir.path();
        let text = text.replace("$WORKSPACE", &root.join("ws").display().to_string());
        let Ok(wire) = serde_json::from_str::<Wire>(&text) else { return };
        let cwd = root.join("ws");
        let Ok(request) = sandbox_sidecar::sandbox_request(&wire, &cwd, world.sandbox.options()) else {
            return;
        };
        let Ok(prepared) = world.sandbox.prepare(&request) else { return };
        let may = |path: &Path| prepared.explain(path).access;
        let outside = may(&root.join("outside"));
        assert!(!outside.read && !outside.write && !outside.list, "{text}");
        let secret = may(&root.join("ws/secret"));
        assert!(!secret.read && !secret.write && !secret.list, "{text}");
        assert!(!may(Path::new("/usr/bin")).write, "{text}");
    });
});
