//! Real launches: streams, exits, errors by stage, signals, the end of whole trees.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::os::unix::fs::PermissionsExt;

use common::processes::alive;
use common::{World, drain, finish, lossy, read_until, wait, write_all};
use sidecar_sandbox::{Exit, Io, LaunchError, LaunchErrorKind, Limits, Request, Stage, Stdio};

const DEFAULT: Request = Request::Default;

#[test]
fn streams_and_exit_code() {
    let world = World::new();
    let done = world.sh("echo out; echo err >&2; exit 3");
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("out\n", "err\n"));
    assert_eq!(done.exit, Exit { code: 3, signal: None });
}

#[test]
fn a_signal_is_128_plus_its_number() {
    let world = World::new();
    assert_eq!(world.sh("kill -9 $$").exit, Exit { code: 137, signal: Some(9) });
}

#[test]
fn arg0_env_and_cwd_are_as_asked() {
    let world = World::new();
    let mut command = world.command(&["sh", "-c", "echo $0 $PWD $X", "name"]);
    command.env.push(("X".into(), "a b".into()));
    let (child, io) = world.launch(&DEFAULT, command).unwrap();
    assert_eq!(finish(child, io).stdout, format!("name {} a b\n", world.workspace.display()));

    let mut command = world.command(&["/bin/sh", "-c", "tr '\\0' '\\n' < /proc/$$/cmdline | head -1"]);
    command.arg0 = Some(c"-login".to_owned());
    let (child, io) = world.launch(&DEFAULT, command).unwrap();
    assert_eq!(finish(child, io).stdout, "-login\n");
}

#[test]
fn stdin_is_a_pipe_or_nothing() {
    let world = World::new();
    let mut command = world.command(&["wc", "-c"]);
    command.stdio = Stdio::Pipes { stdin: true };
    let (child, io) = world.launch(&DEFAULT, command).unwrap();
    let Io::Pipes { stdin: Some(stdin), stdout, stderr } = io else { panic!() };
    write_all(&stdin, b"12345");
    let done = finish(child, Io::Pipes { stdin: Some(stdin), stdout, stderr });
    assert_eq!(done.stdout.trim(), "5");

    let (child, io) = world.launch(&DEFAULT, world.command(&["wc", "-c"])).unwrap();
    assert_eq!(finish(child, io).stdout.trim(), "0");
}

#[test]
fn signals_are_reset_and_unblocked() {
    let world = World::new();
    let (child, io) = world.launch(&DEFAULT, world.command(&["cat", "/proc/self/status"])).unwrap();
    let done = finish(child, io);
    let names = ["SigBlk", "SigIgn", "SigCgt", "NoNewPrivs", "CapEff", "CapPrm", "CapBnd"];
    let fields: Vec<(&str, &str)> = done.stdout.lines().filter_map(|l| l.split_once(":\t")).collect();
    for name in names {
        let value = fields.iter().find(|(n, _)| *n == name).unwrap().1;
        match name {
            "NoNewPrivs" => assert_eq!(value, "1"),
            // Without CAP_SETPCAP the bounding set stays; nothing can be gained from it under no_new_privs.
            "CapBnd" => assert!(value == "0000000000000000" || !caps_are_root()),
            _ => assert_eq!(value, "0000000000000000", "{name}"),
        }
    }
}

fn caps_are_root() -> bool {
    caps::has_cap(None, caps::CapSet::Effective, caps::Capability::CAP_SETPCAP).unwrap()
}

#[test]
fn only_stdio_is_inherited() {
    let world = World::new();
    let (child, io) = world.launch(&DEFAULT, world.command(&["ls", "/proc/self/fd"])).unwrap();
    // The fourth is the directory that ls reads.
    assert_eq!(finish(child, io).stdout, "0\n1\n2\n3\n");
}

#[test]
fn a_terminal_has_its_size_and_is_the_controlling_one() {
    let world = World::new();
    let mut command = world.command(&["sh", "-c", "stty size; tty; exec 3<>/dev/tty && echo controlling"]);
    command.stdio = Stdio::Pty { rows: 50, cols: 132 };
    let (child, io) = world.launch(&DEFAULT, command).unwrap();
    let Io::Pty(master) = io else { panic!() };
    let text = lossy(&drain(master));
    assert!(text.starts_with("50 132\r\n/dev/pts/"), "{text}");
    assert!(text.ends_with("controlling\r\n"), "{text}");
    wait(child.tree_event());
    assert_eq!(child.reap().code, 0);
}

#[test]
fn what_a_terminal_was_given_last_is_not_lost() {
    let world = World::new();
    for round in 0..200 {
        let mut command = world.command(&["/usr/bin/printf", "x"]);
        command.stdio = Stdio::Pty { rows: 24, cols: 80 };
        let (child, io) = world.launch(&DEFAULT, command).unwrap();
        let Io::Pty(master) = io else { panic!() };
        // The end first, the reading after it: the kernel must have kept it.
        wait(child.tree_event());
        assert_eq!(child.reap().code, 0);
        assert_eq!(lossy(&drain(master)), "x", "round {round}");
    }
}

#[test]
fn ctrl_c_and_interrupt_reach_the_foreground_group() {
    let world = World::new();
    for by_key in [true, false] {
        let mut command = world.command(&["sh", "-c", "echo ready; exec sleep 600"]);
        command.stdio = Stdio::Pty { rows: 24, cols: 80 };
        let (child, io) = world.launch(&DEFAULT, command).unwrap();
        let Io::Pty(master) = io else { panic!() };
        read_until(&master, "ready");
        if by_key {
            write_all(&master, b"\x03");
        } else {
            child.signal(libc::SIGINT).unwrap();
        }
        wait(child.exit_event());
        assert_eq!(child.exit(), Some(Exit { code: 130, signal: Some(libc::SIGINT) }));
    }
}

#[test]
fn a_signal_reaches_the_group_and_a_gone_one_is_no_error() {
    let world = World::new();
    let (child, io) = world.launch(&DEFAULT, world.command(&["sh", "-c", "echo ready; sleep 600"])).unwrap();
    let Io::Pipes { stdout, .. } = &io else { panic!() };
    read_until(stdout, "ready");
    child.signal(libc::SIGTERM).unwrap();
    wait(child.exit_event());
    assert_eq!(child.exit().unwrap().signal, Some(libc::SIGTERM));
    child.signal(libc::SIGTERM).unwrap();
    wait(child.tree_event());
    child.signal_tree(libc::SIGKILL).unwrap();
    assert_eq!(finish(child, io).exit.code, 143);
}

fn error_of(world: &World, argv: &[&str], cwd: Option<&std::path::Path>) -> LaunchError {
    let mut command = world.command(argv);
    if let Some(cwd) = cwd {
        command.cwd = cwd.to_owned();
    }
    world.launch(&DEFAULT, command).unwrap_err()
}

#[test]
fn each_failure_names_the_right_thing() {
    let world = World::new();
    let ws = &world.workspace;
    let script = |name: &str, text: &str, mode: u32| {
        let path = ws.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    std::fs::create_dir(ws.join("closed")).unwrap();
    std::fs::set_permissions(ws.join("closed"), std::fs::Permissions::from_mode(0o000)).unwrap();
    let file = script("file", "x", 0o644);
    let no_interpreter = script("nope", "#!/nope\n", 0o755);
    let no_format = script("format", "echo x\n", 0o755);
    let directory = ws.to_str().unwrap();
    let check = |e: LaunchError, kind: LaunchErrorKind, stage: Stage, errno: i32, path: &str, text: &str| {
        assert_eq!((e.kind, e.stage, e.errno), (kind, stage, errno), "{e}");
        assert_eq!(e.path.as_deref(), Some(std::path::Path::new(path)), "{e}");
        assert!(e.message.contains(text) && e.message.contains("os error"), "{e}");
    };
    use LaunchErrorKind::{CwdNotFound, NotExecutable, PermissionDenied, ProgramNotFound};
    let at = |dir: &str| ws.join(dir);
    let closed = at("closed");
    check(
        error_of(&world, &["/no/such"], None),
        ProgramNotFound,
        Stage::Exec,
        libc::ENOENT,
        "/no/such",
        "/no/such",
    );
    check(error_of(&world, &["nosuch"], None), ProgramNotFound, Stage::Exec, libc::ENOENT, "nosuch", "PATH");
    let e = error_of(&world, &["true"], Some(&at("gone")));
    check(e, CwdNotFound, Stage::Cwd, libc::ENOENT, at("gone").to_str().unwrap(), "cwd");
    let e = error_of(&world, &["true"], Some(&at("file")));
    check(e, CwdNotFound, Stage::Cwd, libc::ENOTDIR, &file, "not a directory");
    let e = error_of(&world, &["true"], Some(&closed));
    check(e, PermissionDenied, Stage::Cwd, libc::EACCES, closed.to_str().unwrap(), "cwd");
    check(
        error_of(&world, &[&no_interpreter], None),
        NotExecutable,
        Stage::Exec,
        libc::ENOENT,
        &no_interpreter,
        "interpreter",
    );
    check(
        error_of(&world, &[directory], None),
        NotExecutable,
        Stage::Exec,
        libc::EACCES,
        directory,
        "directory",
    );
    check(
        error_of(&world, &[&no_format], None),
        NotExecutable,
        Stage::Exec,
        libc::ENOEXEC,
        &no_format,
        "format",
    );
    check(
        error_of(&world, &[&file], None),
        PermissionDenied,
        Stage::Exec,
        libc::EACCES,
        &file,
        "may not be executed",
    );
    // The control: the same sandbox starts what is there.
    assert_eq!(world.sh("true").exit.code, 0);
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Programs that try to get away, each holding `mark` in its command line.
fn runaways(mark: &str) -> [String; 4] {
    [
        format!("setsid sh -c 'sleep 600 & wait; : {mark}' & echo ready; wait"),
        format!("(setsid sh -c '(sleep 600; : {mark}) & exit' &) ; echo ready; sleep 600; : {mark}"),
        format!(
            "(trap '' TERM HUP INT; sh -c 'trap \"\" TERM; sleep 600; : {mark}') & echo ready; wait; : {mark}"
        ),
        // At most 2^6 processes.
        format!(
            "b() {{ [ $1 -eq 0 ] && exec sh -c 'sleep 600; : {mark}'; b $(($1-1)) & b $(($1-1)) & wait; }}; echo ready; b 6; : {mark}"
        ),
    ]
}

fn ending_a_tree(world: &World, kind: &str) {
    let bystander_mark = format!("bystander-{kind}-{}", std::process::id());
    let script = format!("echo ready; sleep 600; : {bystander_mark}");
    let (bystander, bystander_io) = world.launch(&DEFAULT, world.command(&["sh", "-c", &script])).unwrap();
    let Io::Pipes { stdout, .. } = &bystander_io else { panic!() };
    read_until(stdout, "ready");
    for (n, script) in runaways(&format!("runaway-{kind}-{}", std::process::id())).iter().enumerate() {
        let mark = format!("runaway-{kind}-{}", std::process::id());
        let (child, io) = world.launch(&DEFAULT, world.command(&["sh", "-c", script])).unwrap();
        let Io::Pipes { stdout, .. } = &io else { panic!() };
        read_until(stdout, "ready");
        assert!(!alive(&mark).is_empty(), "the control: there is something to end");
        child.signal_tree(libc::SIGKILL).unwrap();
        wait(child.tree_event());
        child.reap();
        assert_eq!(alive(&mark), Vec::<i32>::new(), "script {n}");
        assert!(!alive(&bystander_mark).is_empty(), "another launch is untouched");
    }
    // Dropping ends a tree too.
    drop(bystander);
    drop(bystander_io);
    while !alive(&bystander_mark).is_empty() {
        std::thread::yield_now();
    }
}

#[test]
fn a_tree_is_ended_whole() {
    ending_a_tree(&World::new(), "scope");
}

#[test]
fn a_tree_is_ended_whole_by_tag() {
    let world = World::with(|o| o.max_abi = Some(5));
    assert!(!world.sandbox.kernel().scope_signal);
    ending_a_tree(&world, "tag");
}

#[test]
fn a_dead_shim_leaves_nothing() {
    let world = World::new();
    let mark = format!("orphan-{}", std::process::id());
    let script = format!("(setsid sh -c 'sleep 600; : {mark}' &); echo ready; sleep 600; : {mark}");
    let (child, io) = world.launch(&DEFAULT, world.command(&["sh", "-c", &script])).unwrap();
    let Io::Pipes { stdout, .. } = &io else { panic!() };
    read_until(stdout, "ready");
    let shim = parent_of(child.pid());
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(shim), nix::sys::signal::Signal::SIGKILL).unwrap();
    wait(child.tree_event());
    assert_eq!(child.reap(), Exit { code: 137, signal: Some(9) });
    assert_eq!(alive(&mark), Vec::<i32>::new());
}

fn parent_of(pid: i32) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn the_processes_of_a_tree_are_counted() {
    let world = World::new();
    let script = "sleep 600 & setsid sleep 600 & echo ready; wait";
    let (child, io) = world.launch(&DEFAULT, world.command(&["sh", "-c", script])).unwrap();
    let Io::Pipes { stdout, .. } = &io else { panic!() };
    read_until(stdout, "ready");
    let mut processes = child.processes();
    processes.sort_unstable();
    assert_eq!((processes.len(), processes.contains(&child.pid())), (3, true), "{processes:?}");
    assert!(!processes.contains(&(std::process::id() as i32)));
    child.signal_tree(libc::SIGKILL).unwrap();
    wait(child.tree_event());
    assert_eq!(child.processes(), Vec::<i32>::new());
}

#[test]
fn the_exit_is_told_while_the_background_lives_on() {
    let world = World::new();
    let mark = format!("background-{}", std::process::id());
    let script = format!("sh -c 'sleep 600; : {mark}' >/dev/null 2>&1 & echo ok");
    let (child, io) = world.launch(&DEFAULT, world.command(&["sh", "-c", &script])).unwrap();
    wait(child.exit_event());
    assert_eq!(child.exit().unwrap().code, 0);
    let Io::Pipes { stdout, .. } = io else { panic!() };
    assert_eq!(lossy(&drain(stdout)), "ok\n");
    assert!(!alive(&mark).is_empty());
    child.signal_tree(libc::SIGKILL).unwrap();
    wait(child.tree_event());
    child.reap();
    assert_eq!(alive(&mark).len(), 0);
}

#[test]
fn limits_are_each_processs_own() {
    let world = World::new();
    let mut command = world.command(&["sh", "-c", "ulimit -d; ulimit -n; ulimit -f; ulimit -t; ulimit -c"]);
    command.limits = Limits {
        memory_bytes: Some(1 << 30),
        open_files: Some(77),
        file_bytes: Some(1 << 20),
        cpu_seconds: Some(9),
    };
    let (child, io) = world.launch(&DEFAULT, command).unwrap();
    // dash counts data in KiB and files in blocks of 512 bytes.
    assert_eq!(finish(child, io).stdout, "1048576\n77\n2048\n9\n0\n");
    let unlimited = world.sh("ulimit -d; ulimit -f; ulimit -t");
    assert_eq!(unlimited.stdout, "unlimited\nunlimited\nunlimited\n");
}
