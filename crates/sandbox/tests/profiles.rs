//! The operator's own profiles: what they add to the one that they extend, and that the ceiling holds for them too.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use common::World;
use sidecar_sandbox::{
    CustomProfile, Entry, EntryAccess, Network, Options, Permissions, Place, Ports, Profile, Request, State,
    TmpPolicy,
};

fn custom(name: &str, extends: Profile) -> CustomProfile {
    CustomProfile {
        name: name.into(),
        extends,
        read_roots: vec![],
        write_roots: vec![],
        network: None,
        tmp: None,
        debug: None,
    }
}

/// A world whose options have these profiles, and the directory `out` in the workspace.
fn world(change: impl FnOnce(&mut Options) -> Vec<CustomProfile>) -> World {
    World::with(|o| {
        std::fs::create_dir(o.roots.workspace.join("out")).unwrap();
        o.profiles = change(o).into_iter().map(Arc::new).collect();
    })
}

fn named(world: &World, name: &str) -> Request {
    Request::Profile(world.sandbox.options().profile(name).unwrap())
}

#[test]
fn read_only_with_one_place_to_write() {
    let world = world(|o| {
        let write_roots = vec![o.roots.workspace.join("out")];
        vec![CustomProfile { write_roots, ..custom("docs", Profile::ReadOnly) }]
    });
    let request = named(&world, "docs");
    let done =
        world.sh_under(&request, "echo x > out/f && cat out/f && chmod 600 out/f; echo x > f; echo $TMPDIR");
    let lines: Vec<_> = done.stdout.lines().collect();
    assert_eq!((lines[0], done.stderr.matches("ermission denied").count()), ("x", 1), "{done:?}");
    assert!(lines[1].starts_with("/tmp/") && !world.workspace.join("f").exists(), "{done:?}");
    assert!(world.sh("echo x > f").exit.code == 0, "the control");
    let receipt = world.sandbox.prepare(&request).unwrap().receipt().clone();
    assert_eq!((receipt.profile.as_str(), receipt.part("metadata")), ("docs", Some(State::Partial)));
    assert_eq!(receipt.network, Network::None);
}

#[test]
fn its_own_word_on_tmp_debug_and_network() {
    let world = world(|_| {
        vec![
            CustomProfile { tmp: Some(TmpPolicy::Shared), ..custom("shared", Profile::ReadOnly) },
            CustomProfile { tmp: Some(TmpPolicy::Private), ..custom("private", Profile::WorkspaceWrite) },
            CustomProfile { debug: Some(false), ..custom("quiet", Profile::WorkspaceWriteNoNetwork) },
            CustomProfile { network: Some(Network::Open), ..custom("online", Profile::ReadOnly) },
        ]
    });
    let run = |name: &str, script: &str| world.sh_under(&named(&world, name), script).stdout;
    let tmp = "(echo x > /tmp/p-$$) 2>/dev/null && rm /tmp/p-$$ && echo shared; echo ${TMPDIR:-none}";
    assert_eq!(run("shared", tmp), "shared\nnone\n");
    assert!(run("private", tmp).starts_with("/tmp/"));
    let trace = "python3 -c 'import ctypes; print(ctypes.CDLL(None).ptrace(0, 0, 0, 0))'";
    assert_eq!((run("quiet", trace).as_str(), run("private", trace).as_str()), ("-1\n", "0\n"));
    let socket = "python3 -c 'import socket; socket.socket(); print(1)' 2>/dev/null || echo 0";
    assert_eq!((run("online", socket).as_str(), run("shared", socket).as_str()), ("1\n", "0\n"));
}

#[test]
fn the_ceiling_holds_for_them_and_may_be_one() {
    let wide = |o: &mut Options| {
        let outside = o.roots.home.clone().unwrap().join("cache");
        std::fs::create_dir(&outside).unwrap();
        std::fs::set_permissions(&outside, std::fs::Permissions::from_mode(0o777)).unwrap();
        CustomProfile { write_roots: vec![outside], ..custom("wide", Profile::WorkspaceWrite) }
    };
    let write = "echo x > $HOME/cache/f && echo written";
    let below = world(|o| vec![wide(o)]);
    assert_eq!(below.sh_under(&named(&below, "wide"), write).stdout, "", "workspaceWrite is the ceiling");
    let ceiling = world(|o| {
        let wide = wide(o);
        o.ceiling = Profile::Custom(Arc::new(wide.clone()));
        o.default = Profile::ReadOnly;
        vec![wide]
    });
    for request in [named(&ceiling, "wide"), Request::Ceiling, everywhere(&ceiling)] {
        assert_eq!(ceiling.sh_under(&request, write).stdout, "written\n", "{request:?}");
    }
    for request in [Request::Default, Request::Profile(Profile::WorkspaceWrite)] {
        assert_eq!(ceiling.sh_under(&request, write).stdout, "", "{request:?}");
    }
}

/// The stock client's write access to everything.
fn everywhere(world: &World) -> Request {
    let place = Place::Special { kind: "root".into(), subpath: None };
    Request::Permissions(Permissions {
        entries: Some(vec![Entry { place, access: EntryAccess::Write, skip_missing: false }]),
        network: false,
        cwd: world.workspace.clone(),
        workspace_roots: vec![],
    })
}

#[test]
fn two_lists_of_ports_meet() {
    let ports = |list: &[u16]| {
        Network::Ports(Ports { connect: Some(list.iter().copied().collect()), bind: None, udp: false })
    };
    let world = world(|o| {
        o.network = ports(&[443, 8080]);
        vec![CustomProfile { network: Some(ports(&[80, 443])), ..custom("web", Profile::ReadOnly) }]
    });
    let receipt = world.sandbox.prepare(&named(&world, "web")).unwrap().receipt().clone();
    assert_eq!(receipt.network, ports(&[443]));
}

#[test]
fn names_that_are_offered_and_missing_roots() {
    let world = world(|o| {
        o.ceiling = Profile::WorkspaceWriteNoNetwork;
        let gone = CustomProfile {
            read_roots: vec![PathBuf::from("/no/such/root")],
            ..custom("gone", Profile::ReadOnly)
        };
        vec![gone, custom("wide", Profile::WorkspaceWrite)]
    });
    let names: Vec<_> = world.sandbox.options().offered().map(|p| p.to_string()).collect();
    assert_eq!(names, ["readOnly", "workspaceWriteNoNetwork", "gone"]);
    let error = world.sandbox.prepare(&named(&world, "gone")).unwrap_err().to_string();
    assert!(error.contains("profiles.gone.readRoots") && error.contains("/no/such/root"), "{error}");
    let unknown = world.sandbox.options().profile("nope").unwrap_err().to_string();
    assert_eq!(unknown, "readOnly, workspaceWriteNoNetwork, workspaceWrite, gone, wide or none");
}
