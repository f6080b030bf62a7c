//! Layers upon layers: agents that confine their own children inside a launch, and a server that is confined itself.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use common::{Done, World, finish};
use landlock::{AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr};
use sidecar_sandbox::{LaunchErrorKind, Profile, Request, Stage};

/// What an agent does that has a sandbox of its own: Landlock and seccomp by raw system calls.
const AGENT: &str = r#"
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
WRITE, REMOVE, MAKE, REFER = 1 << 1, 1 << 5, 1 << 8, 1 << 13
def call(nr, *args):
    ret = libc.syscall(ctypes.c_long(nr), *args)
    if ret < 0: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return ret
def layer(handled, *granted):
    attr = struct.pack("Q", handled)
    ruleset = call(444, attr, ctypes.c_size_t(8), ctypes.c_uint(0))
    for path, rights in granted:
        fd = os.open(path, os.O_PATH)
        call(445, ctypes.c_int(ruleset), ctypes.c_int(1), struct.pack("=Qi", rights, fd), ctypes.c_uint(0))
    call(446, ctypes.c_int(ruleset), ctypes.c_uint(0))
    os.close(ruleset)
def filter(nr):
    code = struct.pack("HBBI" * 4, 0x20, 0, 0, 0, 0x15, 0, 1, nr, 6, 0, 0, 0x50001, 6, 0, 0, 0x7fff0000)
    text = ctypes.create_string_buffer(code)
    program = struct.pack("HxxxxxxP", 4, ctypes.addressof(text))
    if libc.prctl(22, 2, program, 0, 0): raise OSError(ctypes.get_errno(), "seccomp")
def child(f):
    pid = os.fork()
    if pid == 0:
        try: f()
        except OSError as e: print("refused", e.errno, flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
def write(path):
    open(path, "w").close(); print("wrote", path, flush=True)
def rename(a, b):
    os.rename(a, b); print("renamed", flush=True)
"#;

fn agent(world: &World, request: &Request, script: &str) -> Done {
    let script = format!("{AGENT}{script}");
    let (child, io) = world.launch(request, world.command(&["python3", "-c", &script])).unwrap();
    finish(child, io)
}

#[test]
fn an_agent_confines_its_own_children() {
    let world = World::new();
    std::fs::create_dir(world.workspace.join("inner")).unwrap();
    let sysinfo = if cfg!(target_arch = "x86_64") { 99 } else { 179 };
    let script = format!(
        r#"
def confined():
    layer(WRITE | MAKE, ("inner", WRITE | MAKE)); filter({sysinfo})
    write("inner/f")
    for f in (lambda: write("outer"), lambda: write("{outside}/f"), lambda: call({sysinfo}, ctypes.create_string_buffer(512))): child(f)
child(confined)
write("outer")
call({sysinfo}, ctypes.create_string_buffer(512)); print("its own are free")
"#,
        outside = world.outside.display()
    );
    for request in [Request::Default, Request::Ceiling, Request::Profile(Profile::WorkspaceWrite)] {
        let done = agent(&world, &request, &script);
        let lines: Vec<_> = done.stdout.lines().collect();
        assert_eq!(
            lines,
            ["wrote inner/f", "refused 13", "refused 13", "refused 1", "wrote outer", "its own are free"],
            "{request:?}: {done:?}"
        );
    }
}

#[test]
fn renames_across_directories_through_every_layer() {
    let world = World::new();
    for dir in ["a", "b"] {
        std::fs::create_dir(world.workspace.join(dir)).unwrap();
    }
    let all = "WRITE | REMOVE | MAKE | REFER";
    let inner = |rights: &str| {
        format!(
            "open('a/f', 'w').close()\nlayer({all}, ('.', {rights}))\nchild(lambda: rename('a/f', 'b/f'))"
        )
    };
    for request in [Request::Default, Request::Ceiling] {
        let plain = agent(&world, &request, "open('a/f', 'w').close()\nrename('a/f', 'b/f')");
        assert_eq!(plain.stdout, "renamed\n", "{request:?}: {plain:?}");
        let granted = agent(&world, &request, &inner(all));
        assert_eq!(granted.stdout, "renamed\n", "{request:?}: {granted:?}");
        let withheld = agent(&world, &request, &inner("WRITE | REMOVE | MAKE"));
        assert_eq!(withheld.stdout, format!("refused {}\n", libc::EXDEV), "{withheld:?}");
    }
    let outside = world.outside.display();
    std::fs::set_permissions(&world.outside, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let out = agent(&world, &Request::Default, &format!("child(lambda: rename('b/f', '{outside}/f'))"));
    assert_eq!(out.stdout, format!("refused {}\n", libc::EACCES), "not out of the workspace: {out:?}");
}

/// landlock_restrict_self(2): a thread has at most 16 layers.
const MOST: usize = 16;

#[test]
fn how_many_layers_a_launch_has_left() {
    let world = World::new();
    let script = "n = 0\ntry:\n  while n < 20: layer(1 << 6); n += 1\nexcept OSError as e: print(n, e.errno)";
    // The scopes of the shim and of the command, the ceiling, the request.
    for (request, ours) in [(Request::Default, 4), (Request::Ceiling, 3)] {
        let done = agent(&world, &request, script);
        assert_eq!(done.stdout, format!("{} {}\n", MOST - ours, libc::E2BIG), "{request:?}: {done:?}");
    }
}

#[test]
fn a_server_under_many_layers_works_until_there_are_too_many() {
    let launch = |layers: usize| {
        std::thread::spawn(move || {
            nix::sys::prctl::set_no_new_privs().unwrap();
            for _ in 0..layers {
                let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
                let ruleset = ruleset.handle_access(AccessFs::MakeChar).unwrap().create().unwrap();
                ruleset.restrict_self().unwrap();
            }
            let world = World::new();
            world
                .launch(&Request::Default, world.command(&["echo", "hello"]))
                .map(|(child, io)| finish(child, io).stdout)
        })
        .join()
        .unwrap()
    };
    assert_eq!(launch(MOST - 4).unwrap(), "hello\n");
    let error = launch(MOST - 3).unwrap_err();
    assert_eq!((error.stage, error.errno), (Stage::Landlock, libc::E2BIG), "{error}");
    assert_eq!(error.kind, LaunchErrorKind::SandboxUnavailable);
    assert!(error.message.contains("16 Landlock layers"), "{error}");
}
