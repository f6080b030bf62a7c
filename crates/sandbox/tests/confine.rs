//! What the profiles grant and deny; each denial has a control that shows the same act succeeding elsewhere.

mod common;

use std::sync::Arc;

use common::World;
use sidecar_sandbox::{
    CustomProfile, Entry, EntryAccess, Error, Io, Permissions, Place, Profile, PtyPolicy, Request, State,
    Stdio, TmpPolicy,
};

fn profile(profile: Profile) -> Request {
    Request::Profile(profile)
}

fn special(kind: &str, subpath: Option<&str>, access: EntryAccess) -> Entry {
    Entry {
        place: Place::Special { kind: kind.into(), subpath: subpath.map(Into::into) },
        access,
        skip_missing: subpath.is_some(),
    }
}

fn stock(world: &World, entries: Vec<Entry>) -> Request {
    Request::Permissions(Permissions {
        entries: Some(entries),
        network: false,
        cwd: world.workspace.clone(),
        workspace_roots: vec![world.workspace.clone()],
    })
}

#[test]
fn writes_stay_inside() {
    let world = World::new();
    let outside = world.outside.display().to_string();
    // World-writable: only the sandbox is in the way.
    std::fs::set_permissions(&world.outside, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    std::fs::write(world.outside.join("there"), "old").unwrap();
    for request in [Request::Default, Request::Ceiling, profile(Profile::WorkspaceWriteNoNetwork)] {
        let control = world
            .sh_under(&request, "echo x > inside && cat inside && mkdir -p d && mv inside d/ && rm -r d");
        assert_eq!((control.exit.code, control.stdout.as_str()), (0, "x\n"), "{control:?}");
        for act in [
            "echo x > $O/new",
            "echo x >> $O/there",
            "rm $O/there",
            "mkdir $O/d",
            "ln -s /etc $O/l",
            "mv $O/there .",
            "truncate -s0 $O/there",
            "cat $O/there",
            "ls $O",
        ] {
            let done = world.sh_under(&request, &format!("O={outside}; {act}"));
            assert_ne!(done.exit.code, 0, "{act}");
            assert!(done.stderr.to_lowercase().contains("permission denied"), "{act}: {done:?}");
        }
    }
    assert_eq!(std::fs::read_to_string(world.outside.join("there")).unwrap(), "old");
    assert_eq!(std::fs::read_dir(&world.outside).unwrap().count(), 1);
}

/// `mv` would fall back to a copy; compilers rename and link.
#[test]
fn renames_and_links_across_directories_work_in_what_may_be_written() {
    let script = "mkdir -p a/dir b && echo x > a/file \
        && python3 -c 'import os; os.rename(\"a/dir\", \"b/dir\"); os.rename(\"a/file\", \"b/file\"); os.link(\"b/file\", \"a/link\")' \
        && cat b/file a/link && rmdir b/dir && rm -r a b";
    let world = World::with(|o| o.ceiling = Profile::None);
    for request in [Profile::WorkspaceWrite, Profile::WorkspaceWriteNoNetwork, Profile::None].map(profile) {
        let done = world.sh_under(&request, script);
        assert_eq!((done.exit.code, done.stdout.as_str()), (0, "x\nx\n"), "{request:?}: {done:?}");
    }
}

#[test]
fn read_only_has_a_private_tmp_and_nothing_else() {
    let world = World::new();
    std::fs::write(world.workspace.join("f"), "content").unwrap();
    let script = "cat f; cat <<X\nhere\nX\necho t > $TMPDIR/t && cat $TMPDIR/t; echo $TMPDIR";
    let done = world.sh_under(&profile(Profile::ReadOnly), script);
    let lines: Vec<&str> = done.stdout.lines().collect();
    assert_eq!(lines[..2], ["contenthere", "t"], "{done:?}");
    assert!(!std::path::Path::new(lines[2]).exists(), "it is removed with the launch");
    for act in
        ["echo x > f", "echo x > new", "rm f", "chmod 777 f", "touch f", "echo x > /tmp/sandbox-test-$$"]
    {
        let done = world.sh_under(&profile(Profile::ReadOnly), act);
        assert_ne!(done.exit.code, 0, "{act}");
        let control =
            world.sh(&format!("echo content > f; {act}; rm -f /tmp/sandbox-test-$$; echo content > f"));
        assert_eq!(control.stderr, "", "{act}");
    }
}

/// A profile and a client's permissions: what either of them lacks is not there.
#[test]
fn permissions_within_a_profile_grant_what_both_do() {
    let world = World::new();
    std::fs::create_dir(world.workspace.join("part")).unwrap();
    let entries = |access| {
        let part = Place::Path(world.workspace.join("part"));
        vec![special("root", None, EntryAccess::Read), Entry { place: part, access, skip_missing: false }]
    };
    let within = |profile: Profile, access| match stock(&world, entries(access)) {
        Request::Permissions(permissions) => Request::Within(profile, permissions),
        other => panic!("{other:?}"),
    };
    let acts = "echo x > part/f && echo part; echo x > f && echo workspace; cat /etc/passwd > /dev/null && echo read";
    for (request, expected) in [
        (profile(Profile::WorkspaceWrite), "part\nworkspace\nread\n"),
        (stock(&world, entries(EntryAccess::Write)), "part\nread\n"),
        (within(Profile::WorkspaceWrite, EntryAccess::Write), "part\nread\n"),
        (within(Profile::ReadOnly, EntryAccess::Write), "read\n"),
        (within(Profile::WorkspaceWrite, EntryAccess::Read), "read\n"),
    ] {
        let done = world.sh_under(&request, acts);
        assert_eq!(done.stdout, expected, "{request:?}: {done:?}");
    }
    let receipt =
        world.sandbox.prepare(&within(Profile::ReadOnly, EntryAccess::Write)).unwrap().receipt().clone();
    assert_eq!((receipt.profile.as_str(), receipt.status), ("custom", "full"), "{receipt:?}");
}

#[test]
fn secrets_under_a_home_are_never_granted() {
    // The whole home is a write root, and still the secrets are cut out.
    let world = World::with(|o| o.roots.write_roots = vec![o.roots.home.clone().unwrap()]);
    std::fs::create_dir(world.home.join(".ssh")).unwrap();
    std::fs::write(world.home.join(".ssh/id"), "secret").unwrap();
    std::fs::create_dir(world.home.join("project")).unwrap();
    std::fs::write(world.home.join("project/file"), "public").unwrap();
    let done = world
        .sh("cat $HOME/.ssh/id; ls $HOME/.ssh; ls $HOME; cat $HOME/project/file; echo x > $HOME/project/new");
    assert_eq!(done.stdout, "public", "{done:?}");
    assert_eq!(done.stderr.to_lowercase().matches("permission denied").count(), 3, "{done:?}");
    assert!(world.home.join("project/new").exists());
}

/// A policy is made anew with each change, and follows no link that a launch may have planted.
#[test]
fn a_link_in_a_writable_home_grants_and_takes_nothing() {
    let world = World::with(|o| o.roots.write_roots = vec![o.roots.home.clone().unwrap()]);
    std::fs::write(world.outside.join("secret"), "secret\n").unwrap();
    std::fs::create_dir(world.outside.join("tools")).unwrap();
    std::fs::write(world.outside.join("tools/tool"), "tool\n").unwrap();
    let outside = world.outside.display();
    let acts = format!("cat {outside}/secret {outside}/tools/tool $HOME/.cache/file; echo ok");
    for name in [".cache", ".cargo", "go", ".gitconfig"] {
        for target in ["/", "/var", &outside.to_string(), &format!("{outside}/secret")] {
            assert_eq!(world.sh(&format!("ln -s {target} $HOME/{name} && echo made")).stdout, "made\n");
            for request in [Request::Default, Request::Ceiling, profile(Profile::ReadOnly)] {
                assert_eq!(world.sh_under(&request, &acts).stdout, "ok\n", "{name} to {target}, {request:?}");
            }
            assert_eq!(world.sh(&format!("rm $HOME/{name} && echo gone")).stdout, "gone\n");
        }
    }
    // Nor does one take from others what they need: a protected name leads nowhere.
    for target in [world.workspace.to_str().unwrap(), "/usr", "/usr/bin", "/"] {
        assert_eq!(world.sh(&format!("ln -s {target} $HOME/.ssh && echo made")).stdout, "made\n");
        let done = world.sh("echo x > file && rm $HOME/.ssh && echo ok");
        assert_eq!(done.stdout, "ok\n", "{target}: {done:?}");
    }
    // The controls: a folder of the same name, and a link that no launch can have made.
    std::fs::create_dir(world.home.join(".cache")).unwrap();
    std::fs::write(world.home.join(".cache/file"), "cached\n").unwrap();
    assert_eq!(world.sh(&acts).stdout, "cached\nok\n");
    let world = World::new();
    std::os::unix::fs::symlink(&world.outside, world.home.join(".cargo")).unwrap();
    std::fs::write(world.outside.join("tool"), "tool\n").unwrap();
    assert_eq!(world.sh("cat $HOME/.cargo/tool").stdout, "tool\n");
}

#[test]
fn a_root_that_was_replaced_by_a_link_is_refused() {
    let world = World::with(|o| {
        let inner = o.roots.workspace.join("inner");
        std::fs::create_dir(&inner).unwrap();
        o.roots.write_roots = vec![inner];
    });
    std::fs::write(world.outside.join("file"), "as it was").unwrap();
    let outside = world.outside.display();
    assert_eq!(world.sh("echo x > inner/file && echo ok").stdout, "ok\n", "the control");
    assert_eq!(world.sh(&format!("rm -r inner && ln -s {outside} inner && echo made")).stdout, "made\n");
    let refused = world.sandbox.prepare(&Request::Default).map(drop);
    let text = refused.unwrap_err().to_string();
    assert!(text.contains("writeRoots") && text.contains("symlink"), "{text}");
    std::fs::remove_file(world.workspace.join("inner")).unwrap();
    std::fs::create_dir(world.workspace.join("inner")).unwrap();
    assert_eq!(world.sh("echo x > inner/file && echo ok").stdout, "ok\n");
    assert_eq!(std::fs::read_to_string(world.outside.join("file")).unwrap(), "as it was");
}

/// The documented profile with a root in the workspace, and a launch of another one that puts a link there.
#[test]
fn a_profiles_root_that_was_replaced_by_a_link_moves_nothing_for_others() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let outside = dir.path();
    let world = World::with(|o| {
        let (docs, home) = (o.roots.workspace.join("docs"), o.roots.home.clone().unwrap());
        let docs = CustomProfile {
            name: "docs".into(),
            extends: Profile::ReadOnly,
            read_roots: vec![],
            write_roots: vec![docs],
            network: None,
            tmp: None,
            debug: None,
        };
        std::fs::create_dir(&docs.write_roots[0]).unwrap();
        // As a certificate's key lies: by a link of the operator's to another directory.
        std::fs::create_dir_all(outside.join("archive")).unwrap();
        std::fs::create_dir_all(outside.join("live")).unwrap();
        std::os::unix::fs::symlink("../archive/key", outside.join("live/key")).unwrap();
        std::os::unix::fs::symlink("archive", outside.join("by-link")).unwrap();
        for name in ["key", "other"] {
            std::fs::write(outside.join("archive").join(name), format!("{name}\n")).unwrap();
        }
        o.roots.protected.push(outside.join("live/key"));
        o.roots.read_roots = vec![outside.join("archive"), outside.join("by-link")];
        o.roots.write_roots = vec![home];
        o.profiles = vec![Arc::new(docs)];
    });
    let (archive, live) = (outside.join("archive"), outside.join("live"));
    let archive = archive.display();
    let read = format!("cat {archive}/key {archive}/other; echo ok");
    let holds = |when: &str| {
        for request in [Request::Default, Request::Ceiling, profile(Profile::ReadOnly)] {
            let done = world.sh_under(&request, &read);
            assert_eq!(done.stdout, "other\nok\n", "{when}, {request:?}: {done:?}");
        }
    };
    holds("before");
    for (target, ssh) in
        [(live.to_str().unwrap(), None), ("/", Some("/usr")), ("/", Some("/")), ("/usr", Some("/usr/bin"))]
    {
        // What is made in the home has the policy made anew.
        let ssh = ssh.map_or("mkdir $HOME/.ssh".to_owned(), |ssh| format!("ln -s {ssh} $HOME/.ssh"));
        let planted = world.sh(&format!("rmdir docs && ln -s {target} docs && {ssh} && echo made"));
        assert_eq!(planted.stdout, "made\n", "{planted:?}");
        holds(target);
        let undone = world.sh("rm -r docs && mkdir docs && echo ok");
        assert_eq!(undone.stdout, "ok\n", "{undone:?}");
        let ssh = world.home.join(".ssh");
        std::fs::remove_file(&ssh).or_else(|_| std::fs::remove_dir(&ssh)).unwrap();
    }
}

/// git gives up where it finds a configuration that it cannot read.
#[test]
fn gits_configuration_may_be_read_and_its_credentials_not() {
    let world = World::new();
    std::fs::create_dir_all(world.home.join(".config/git")).unwrap();
    std::fs::write(world.home.join(".gitconfig"), "[user]\nname = someone\n").unwrap();
    std::fs::write(world.home.join(".config/git/config"), "[user]\nemail = someone@localhost\n").unwrap();
    std::fs::write(world.home.join(".config/git/credentials"), "https://someone:secret@localhost\n").unwrap();
    std::fs::write(world.home.join(".git-credentials"), "https://someone:secret@localhost\n").unwrap();
    std::fs::write(world.home.join(".config/other"), "other").unwrap();
    let script = "export HOME; git config user.name; git config user.email; cd $HOME; \
        cat .config/git/credentials .git-credentials .config/other; echo x >> .gitconfig";
    for request in [Request::Default, Request::Ceiling, profile(Profile::ReadOnly)] {
        let done = world.sh_under(&request, script);
        assert_eq!(done.stdout, "someone\nsomeone@localhost\n", "{done:?}");
        assert_eq!(done.stderr.to_lowercase().matches("permission denied").count(), 4, "{done:?}");
    }
    let control = world.sh_under(&Request::Default, "echo $HOME");
    assert_eq!(control.stdout.trim_end(), world.home.to_str().unwrap(), "{control:?}");
}

#[test]
fn the_network_is_as_the_profile_says() {
    let world = World::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected");
    let run = |request: &Request| {
        let (child, io) = world.launch(request, world.command(&["bash", "-c", &script])).unwrap();
        common::finish(child, io)
    };
    assert_eq!(run(&profile(Profile::WorkspaceWrite)).stdout, "connected\n");
    for request in [Request::Default, profile(Profile::ReadOnly)] {
        let done = run(&request);
        assert_eq!(done.stdout, "", "{done:?}");
        assert!(done.stderr.contains("not permitted"), "{done:?}");
    }
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_ok(), "the control came through");
    assert!(listener.accept().is_err(), "nothing else did");
}

#[test]
fn a_request_cannot_loosen_the_ceiling() {
    let world = World::with(|o| o.ceiling = Profile::ReadOnly);
    for request in
        [Request::Default, Request::Ceiling, profile(Profile::WorkspaceWrite), profile(Profile::None)]
    {
        let done = world.sh_under(&request, "echo x > f");
        assert_ne!(done.exit.code, 0, "{request:?}");
    }
    let request = stock(&world, vec![special("root", None, EntryAccess::Write)]);
    assert_ne!(world.sh_under(&request, "echo x > f").exit.code, 0);
}

#[test]
fn the_stock_clients_permissions() {
    let world = World::new();
    use EntryAccess::{Read, Write};
    let workspace_write = stock(
        &world,
        vec![
            special("root", None, Read),
            special("project_roots", None, Write),
            special("slash_tmp", None, Write),
            special("project_roots", Some(".git"), Read),
            special("made_up", None, Read),
        ],
    );
    let receipt = world.sandbox.prepare(&workspace_write).unwrap().receipt().clone();
    assert_eq!(receipt.profile, "custom");
    for what in [".git", "made_up"] {
        assert!(receipt.unenforced.iter().any(|u| u.what.contains(what)), "{receipt:?}");
    }
    let outside = world.outside.display().to_string();
    let done = world.sh_under(&workspace_write, &format!("echo x > f && cat f; echo x > {outside}/f"));
    assert_eq!(done.stdout, "x\n", "{done:?}");
    assert!(done.stderr.to_lowercase().contains("permission denied"), "{done:?}");

    let read_only = stock(&world, vec![special("root", None, Read)]);
    let done = world.sh_under(&read_only, "cat f; echo y > f; cat <<X\nhere\nX");
    assert_eq!(done.stdout, "x\nhere\n", "{done:?}");
    assert!(done.stderr.to_lowercase().contains("permission denied"), "{done:?}");
}

#[test]
fn what_cannot_be_honoured_is_refused() {
    let world = World::new();
    let entry = |place, skip_missing| Entry { place, access: EntryAccess::Write, skip_missing };
    let glob = stock(&world, vec![entry(Place::Glob("**/[.rs".into()), false)]);
    assert!(matches!(world.sandbox.prepare(&glob), Err(Error::Refused(text)) if text.contains("**/[.rs")));
    let gone = world.workspace.join("gone");
    let missing = stock(&world, vec![entry(Place::Path(gone.clone()), false)]);
    assert!(matches!(world.sandbox.prepare(&missing), Err(Error::Root { path, .. }) if path == gone));
    let skipped = stock(&world, vec![entry(Place::Path(gone), true)]);
    assert!(world.sandbox.prepare(&skipped).is_ok());
}

#[test]
fn a_denied_directory_is_cut_out() {
    let world = World::new();
    std::fs::create_dir(world.workspace.join("private")).unwrap();
    std::fs::create_dir(world.workspace.join("open")).unwrap();
    std::fs::write(world.workspace.join("private/f"), "no").unwrap();
    std::fs::write(world.workspace.join("open/f"), "yes\n").unwrap();
    let request = stock(
        &world,
        vec![
            special("root", None, EntryAccess::Read),
            special("project_roots", None, EntryAccess::Write),
            special("project_roots", Some("private"), EntryAccess::Deny),
        ],
    );
    let done = world.sh_under(&request, "cat open/f; cat private/f");
    assert_eq!(done.stdout, "yes\n", "{done:?}");
    assert_eq!(world.sh("cat private/f").stdout, "no");
}

#[test]
fn a_workspace_that_was_made_anew_works_again() {
    let world = World::new();
    assert_eq!(world.sh("echo x > f").exit.code, 0);
    std::fs::remove_dir_all(&world.workspace).unwrap();
    assert!(
        matches!(world.sandbox.prepare(&Request::Default), Err(Error::Root { role, .. }) if role == "workspaceRoot")
    );
    std::fs::create_dir(&world.workspace).unwrap();
    assert_eq!(world.sh("echo x > f").exit.code, 0);
}

#[test]
fn the_server_is_out_of_reach() {
    let world = World::new();
    let pid = std::process::id();
    for request in [Request::Default, Request::Ceiling] {
        let done = world.sh_under(
            &request,
            &format!("kill -0 {pid}; kill -TERM $PPID; kill -9 -1; cat /proc/{pid}/environ; echo alive"),
        );
        assert!(!done.stdout.contains("PATH="), "{done:?}");
        assert!(done.stderr.to_lowercase().matches("not permitted").count() >= 2, "{done:?}");
    }
    // The control: within its own launch, signals work.
    assert_eq!(world.sh("sleep 600 & kill -9 $!; wait $!; echo $?").stdout, "137\n");
}

#[test]
fn receipts_say_what_holds() {
    let world = World::new();
    let receipt = world.sandbox.prepare(&Request::Default).unwrap().receipt().clone();
    assert_eq!((receipt.status, receipt.abi), ("full", world.sandbox.kernel().abi));
    assert_eq!(receipt.part("fsWrite"), Some(State::Full));
    assert_eq!(receipt.part("treeKill"), Some(State::Full));
    assert_eq!(receipt.part("unixPath"), Some(State::Partial));
    for abi in 1..=5 {
        let world = World::with(|o| o.max_abi = Some(abi));
        let receipt = world.sandbox.prepare(&Request::Default).unwrap().receipt().clone();
        assert_eq!((receipt.status, receipt.abi), ("partial", abi));
        assert_eq!(receipt.part("ioctlDev") == Some(State::Full), abi >= 5);
        assert_eq!(receipt.part("signal"), Some(State::Partial));
        let outside = world.outside.display().to_string();
        let done = world
            .sh(&format!("echo x > in && cat in; echo x > {outside}/out; kill -0 {}", std::process::id()));
        assert_eq!(done.stdout, "x\n", "{done:?}");
        assert!(
            done.stderr.to_lowercase().contains("permission denied") && done.stderr.contains("not permitted"),
            "{done:?}"
        );
    }
}

#[test]
fn truncation_is_denied_at_every_abi() {
    for abi in [1, 2, 3, 7] {
        let world = World::with(|o| {
            o.max_abi = Some(abi);
            o.roots.read_roots = vec![o.roots.home.clone().unwrap()];
        });
        let file = world.home.join("f");
        std::fs::write(&file, "content").unwrap();
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
        let open = "import os,sys; os.close(os.open(sys.argv[1], os.O_RDONLY | os.O_TRUNC))";
        let cut = "import os,sys; os.truncate(sys.argv[1], 0)";
        // Asks for neither reading nor writing.
        let neither = "import os,sys; os.close(os.open(sys.argv[1], 3 | os.O_TRUNC))";
        for act in [open, neither, cut] {
            let path = file.to_str().unwrap();
            let (child, io) =
                world.launch(&Request::Default, world.command(&["python3", "-c", act, path])).unwrap();
            let done = common::finish(child, io);
            assert_eq!(done.exit.code, 1, "abi {abi}: {done:?}");
            assert_eq!(std::fs::read_to_string(&file).unwrap(), "content", "abi {abi}");
        }
    }
}

#[test]
fn a_private_tmp_is_the_launchs_alone() {
    let world = World::with(|o| o.tmp = TmpPolicy::Private);
    let done = world.sh("echo x > $TMPDIR/f && cat $TMP/f; echo $TMPDIR; echo x > /tmp/f-$$");
    let (content, dir) = done.stdout.trim_end().split_once('\n').unwrap();
    assert_eq!(content, "x", "{done:?}");
    assert!(done.stderr.to_lowercase().contains("permission denied"), "{done:?}");
    assert!(!std::path::Path::new(dir).exists(), "it is removed with the launch");
    // The control: a shared one is there for the next command.
    let shared = World::new();
    assert_eq!(shared.sh("echo x > /tmp/f-$$ && cat /tmp/f-$$ && rm /tmp/f-$$").stdout, "x\n");
}

#[test]
fn its_own_terminal_and_no_other() {
    for (ptys, others, nested) in [(PtyPolicy::Own, false, false), (PtyPolicy::Shared, true, true)] {
        let world = World::with(|o| o.ptys = ptys);
        let terminal = |script: &str| {
            let mut command = world.command(&["sh", "-c", script]);
            command.stdio = Stdio::Pty { rows: 24, cols: 80 };
            let (child, io) = world.launch(&Request::Default, command).unwrap();
            let Io::Pty(master) = io else { panic!() };
            (child, master)
        };
        let (victim, victims) = terminal("tty; exec sleep 600");
        let name = common::read_until(&victims, "\n");
        let name = name.trim();
        let script = format!(
            "echo own > $(tty) && echo controlling > /dev/tty; (echo spoof > {name}) 2>/dev/null && echo other; \
             (: <> /dev/ptmx) 2>/dev/null && echo nested"
        );
        let (child, master) = terminal(&script);
        let text = common::lossy(&common::drain(master));
        common::wait(child.tree_event());
        assert!(text.contains("own") && text.contains("controlling"), "{text}");
        assert_eq!((text.contains("other"), text.contains("nested")), (others, nested), "{text}");
        drop(victim);
    }
}

#[test]
fn hints_name_what_would_help_and_nothing_else() {
    let world = World::with(|o| o.tmp = TmpPolicy::Private);
    let prepared = world.sandbox.prepare(&Request::Default).unwrap();
    let outside = world.outside.join("file");
    let expected = format!("writeRoots += {:?}", world.outside.display().to_string());
    assert_eq!(prepared.hint(&outside, true), Some(expected));
    let expected = format!("readRoots += {:?}", world.outside.display().to_string());
    assert_eq!(prepared.hint(&outside, false), Some(expected));
    assert_eq!(
        prepared.hint(std::path::Path::new("/srv-file"), false).unwrap(),
        "readRoots += \"/srv-file\""
    );
    // Granted already; not to be granted at all.
    assert_eq!(prepared.hint(&world.workspace.join("f"), true), None);
    assert_eq!(prepared.hint(std::path::Path::new("/"), false), None);
    let secret = world.home.join(".ssh");
    let protected = Some(format!("nothing: {:?} is protected", secret.display().to_string()));
    assert_eq!(prepared.hint(&secret.join("id"), false), protected);
    assert_eq!(prepared.hint(std::path::Path::new("/tmp/x"), true), None);
}
