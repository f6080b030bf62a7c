//! Launches leave no descriptor behind. Alone in its process: it counts the process's own descriptors.

mod common;

use common::World;
use sidecar_sandbox::Request;

#[test]
fn launches_leave_no_descriptor() {
    let world = World::new();
    let missing = || world.launch(&Request::Default, world.command(&["/no/such"])).unwrap_err();
    // Warm up, so that lazily made descriptors are there.
    missing();
    world.sh("true");
    let count = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let before = count();
    for _ in 0..100 {
        missing();
        world.sh("true");
    }
    // A failed launch is waited for on a thread of its own, which holds a few descriptors until then.
    while count() > before {
        std::thread::yield_now();
    }
}
