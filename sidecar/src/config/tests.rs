use super::*;
use sidecar_sandbox::{Network, Ports};
use source::Raw;

/// Outside /tmp, which is a write root.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").expect("a directory in /var/tmp")
}

fn inputs(cwd: &Path) -> Inputs {
    Inputs { cwd: cwd.to_owned(), flags: vec![("insecureNoAuth", Raw::Bool(true))], ..Inputs::default() }
}

fn with_file(cwd: &Path, text: &str) -> Inputs {
    // The path only has to lie outside the workspace; the text is given.
    Inputs { file: Some((PathBuf::from("/etc/sidecar.toml"), text.to_owned())), ..inputs(cwd) }
}

fn with_env(cwd: &Path, pairs: &[(&str, &str)]) -> Inputs {
    let env = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    Inputs { env, ..inputs(cwd) }
}

#[test]
fn flags_beat_environment_beats_file() {
    let dir = scratch();
    let mut inputs =
        with_file(dir.path(), "profile = \"readOnly\"\nceiling = \"readOnly\"\ncarveOuts = \"reject\"");
    inputs.env.insert("SANDBOX_SIDECAR_PROFILE".into(), "workspaceWrite".into());
    inputs.env.insert("SANDBOX_SIDECAR_CEILING".into(), "workspaceWrite".into());
    inputs.flags.push(("ceiling", Raw::Text("none".into())));
    let config = Config::load(&inputs).expect("valid");
    assert_eq!(config.sandbox.carve_outs, CarveOuts::Reject);
    assert_eq!(config.sandbox.default, Profile::WorkspaceWrite);
    assert_eq!(config.sandbox.ceiling, Profile::None);
    assert_eq!(config.settings.get("ceiling").map(|(_, from)| from), Some(&Source::Flag));
    assert_eq!(
        config.settings.get("profile").map(|(_, from)| from.to_string()).as_deref(),
        Some("SANDBOX_SIDECAR_PROFILE")
    );
    assert_eq!(
        config.settings.get("carveOuts").map(|(_, from)| from.to_string()).as_deref(),
        Some("/etc/sidecar.toml")
    );
}

#[test]
fn tables_lists_and_numbers() {
    let dir = scratch();
    let config = Config::load(&with_file(
        dir.path(),
        "readRoots = [\"/a\", \"b\"]\nlisten = [\"ws://127.0.0.1:0\"]\n[landlock]\nmaxAbi = 3\n[limits]\nprocesses = 9\n",
    ))
    .expect("valid");
    assert_eq!(config.sandbox.max_abi, Some(3));
    assert_eq!(config.limits.processes, 9);
    assert_eq!(config.umask, None);
    assert_eq!(config.sandbox.roots.read_roots, [PathBuf::from("/a"), dir.path().join("b")]);
    let config = Config::load(&with_env(
        dir.path(),
        &[
            ("SANDBOX_SIDECAR_WRITE_ROOTS", "/a:/b"),
            ("SANDBOX_SIDECAR_LISTEN", "ws://[::1]:0, ws://127.0.0.1:0"),
            ("SANDBOX_SIDECAR_LIMITS_EXITED_TTL_SECONDS", "7"),
            ("SANDBOX_SIDECAR_UMASK", "002"),
            ("SANDBOX_SIDECAR_SERVICE_HOST", "10.0.0.1"),
            ("HOME", "/home/a"),
        ],
    ))
    .expect("valid");
    assert_eq!(config.listen.len(), 2);
    assert_eq!(config.limits.exited_ttl.as_secs(), 7);
    assert_eq!(config.umask, Some(0o002));
    assert_eq!(config.sandbox.roots.home.as_deref(), Some(Path::new("/home/a")));
    assert_eq!(config.launch_env.keys().collect::<Vec<_>>(), ["HOME"]);
}

#[test]
fn each_mistake_is_named() {
    let dir = scratch();
    let cases: &[(Inputs, &[&str])] = &[
        (
            with_file(dir.path(), "workspaceRot = \"/\""),
            &["workspaceRot", "/etc/sidecar.toml", "workspaceRoot"],
        ),
        (with_file(dir.path(), "[limits]\nprocess = 1"), &["limits.process", "limits.processes"]),
        (with_file(dir.path(), "[limts]\nprocesses = 1"), &["limts", "is limits"]),
        (with_file(dir.path(), "umask = \"008\""), &["umask", "\"008\"", "octal"]),
        (with_file(dir.path(), "umask = \"777\""), &["umask", "\"777\"", "000 to 077"]),
        (with_file(dir.path(), "umask = \"+02\""), &["umask", "\"+02\"", "octal"]),
        (with_file(dir.path(), "debug = 1"), &["debug", "\"1\"", "true or false"]),
        (with_file(dir.path(), "x = "), &["not valid TOML", "line 1"]),
        (with_file(dir.path(), "[limits]\nprocesses = 0"), &["limits.processes", "\"0\"", "from 1 to"]),
        (with_file(dir.path(), "[landlock]\nmaxAbi = -1"), &["landlock.maxAbi", "\"-1\""]),
        (
            with_env(dir.path(), &[("SANDBOX_SIDECAR_PROFLE", "x")]),
            &["SANDBOX_SIDECAR_PROFLE", "SANDBOX_SIDECAR_PROFILE"],
        ),
        (
            with_env(dir.path(), &[("SANDBOX_SIDECAR_PROFILE", "rw")]),
            &["profile", "\"rw\"", "SANDBOX_SIDECAR_PROFILE", "workspaceWriteNoNetwork"],
        ),
        (
            with_file(dir.path(), "[network]\ntcpConnect = [443, 0]"),
            &["network.tcpConnect", "\"443, 0\"", "from 1 to 65535, without 0"],
        ),
        (
            with_file(dir.path(), "[network]\ntcpBind = [65536]"),
            &["network.tcpBind", "[65536]", "from 0 to 65535"],
        ),
        (with_file(dir.path(), "[network]\ntcpBind = [\"80\"]"), &["network.tcpBind", "port numbers"]),
        (
            with_env(dir.path(), &[("SANDBOX_SIDECAR_NETWORK_TCP_CONNECT", "https")]),
            &["network.tcpConnect", "https"],
        ),
        (
            with_file(dir.path(), "ceiling = \"none\"\nnetwork.tcpConnect = [443]"),
            &["network.tcpConnect", "ceiling none"],
        ),
        (with_file(dir.path(), "ceiling = \"none\"\nnetwork.udp = false"), &["network.udp", "ceiling none"]),
        (with_file(dir.path(), "profiles = 1"), &["profiles", "unknown key"]),
        (with_file(dir.path(), "[profiles]\nx = 1"), &["profiles.x", "table"]),
        (with_file(dir.path(), "[profiles.x]"), &["profiles.x.extends", "nothing", "readOnly"]),
        (
            with_file(dir.path(), "[profiles.x]\nextends = \"none\""),
            &["profiles.x.extends", "none", "readOnly"],
        ),
        (
            with_file(dir.path(), "[profiles.x]\nextends = \"y\"\n[profiles.y]"),
            &["profiles.x.extends", "expected readOnly"],
        ),
        (with_file(dir.path(), "[profiles.x]\nextend = \"readOnly\""), &["profiles.x.extend", "is extends"]),
        (
            with_file(dir.path(), "[profiles.readOnly]\nextends = \"readOnly\""),
            &["profiles.readOnly", "another"],
        ),
        (with_file(dir.path(), "[profiles.custom]\nextends = \"readOnly\""), &["profiles.custom", "another"]),
        (with_file(dir.path(), "[profiles.hostDefault]\nextends = \"readOnly\""), &["profiles.hostDefault"]),
        (with_file(dir.path(), "[profiles.\"a b\"]\nextends = \"readOnly\""), &["profiles.a b", "letters"]),
        (
            with_file(dir.path(), "[profiles.x]\nextends = \"readOnly\"\nudp = true"),
            &["profiles.x.udp", "ports"],
        ),
        (
            with_file(
                dir.path(),
                "[profiles.x]\nextends = \"readOnly\"\nnetwork = \"ports\"\ntcpConnect = [0]",
            ),
            &["profiles.x.tcpConnect", "from 1 to 65535"],
        ),
        (
            with_file(dir.path(), "[profiles.x]\nextends = \"readOnly\"\nnetwork = \"all\""),
            &["profiles.x.network", "all", "none, open or ports"],
        ),
        (
            with_file(dir.path(), "[profiles.x]\nextends = \"readOnly\"\nnetwork = \"ports\"\nudp = true"),
            &["profiles.x.network", "open"],
        ),
        (with_file(dir.path(), "[profiles.x]\nextends = \"readOnly\"\ntmp = \"none\""), &["profiles.x.tmp"]),
        (
            with_file(dir.path(), "[profiles.x]\nextends = \"readOnly\"\ndebug = 1"),
            &["profiles.x.debug", "true or false"],
        ),
        (
            with_file(dir.path(), "profile = \"y\"\n[profiles.x]\nextends = \"readOnly\""),
            &["profile", "\"y\"", "workspaceWrite, x or none"],
        ),
        (
            with_env(dir.path(), &[("SANDBOX_SIDECAR_PROFILES_X_EXTENDS", "readOnly")]),
            &["PROFILES_X", "config file"],
        ),
        (with_env(dir.path(), &[("SANDBOX_SIDECAR_CARVE_OUTS", "no")]), &["carveOuts", "declare or reject"]),
        (
            with_env(dir.path(), &[("SANDBOX_SIDECAR_LISTEN", "tcp://127.0.0.1:1")]),
            &["listen", "tcp://127.0.0.1:1", "ws://IP:PORT"],
        ),
        (
            with_env(dir.path(), &[("SANDBOX_SIDECAR_LISTEN", "ws://0.0.0.0:1")]),
            &["insecureNoAuth", "ws://0.0.0.0:1", "tokenFile"],
        ),
        (with_env(dir.path(), &[("SANDBOX_SIDECAR_TOKEN_FILE", "/etc/t")]), &["insecureNoAuth", "tokenFile"]),
        (
            with_env(dir.path(), &[("SANDBOX_SIDECAR_WORKSPACE_ROOT", "/nope")]),
            &["workspaceRoot", "\"/nope\"", "os error 2"],
        ),
        (
            with_env(dir.path(), &[("SANDBOX_SIDECAR_WORKSPACE_ROOT", "/etc/passwd")]),
            &["workspaceRoot", "directory"],
        ),
    ];
    for (inputs, words) in cases {
        let message = Config::load(inputs).expect_err("a mistake").to_string();
        for word in *words {
            assert!(message.contains(word), "{message:?} does not say {word:?}");
        }
    }
}

#[test]
fn the_network_is_open_or_by_port() {
    let dir = scratch();
    let network = |text: &str| Config::load(&with_file(dir.path(), text)).expect(text).sandbox.network;
    let ports = |connect: Option<&[u16]>, bind: Option<&[u16]>, udp| {
        let set = |list: &[u16]| list.iter().copied().collect();
        Network::Ports(Ports { connect: connect.map(set), bind: bind.map(set), udp })
    };
    assert_eq!(network(""), Network::Open);
    assert_eq!(network("network.udp = true"), Network::Open);
    assert_eq!(network("network.udp = false"), ports(None, None, false));
    assert_eq!(network("[network]\ntcpConnect = [8080, 443, 443]"), ports(Some(&[443, 8080]), None, false));
    assert_eq!(network("[network]\ntcpConnect = []\ntcpBind = [0]"), ports(Some(&[]), Some(&[0]), false));
    assert_eq!(network("[network]\ntcpConnect = [443]\nudp = true"), ports(Some(&[443]), None, true));
    let env = with_env(dir.path(), &[("SANDBOX_SIDECAR_NETWORK_TCP_CONNECT", "443, 8080")]);
    assert_eq!(Config::load(&env).expect("valid").sandbox.network, ports(Some(&[443, 8080]), None, false));
    let many: Vec<String> = (1..=1025).map(|port: u16| port.to_string()).collect();
    let env = with_env(dir.path(), &[("SANDBOX_SIDECAR_NETWORK_TCP_BIND", &many.join(","))]);
    let message = Config::load(&env).expect_err("too many").to_string();
    assert!(message.contains("network.tcpBind") && message.contains("at most 1024"), "{message}");
}

#[test]
fn profiles_of_the_operators_own() {
    let dir = scratch();
    let text = "profile = \"out\"\nceiling = \"web\"\n\
        [profiles.out]\nextends = \"readOnly\"\nwriteRoots = [\"out\"]\ntmp = \"shared\"\ndebug = false\n\
        [profiles.web]\nextends = \"workspaceWrite\"\nreadRoots = [\"/a\"]\nnetwork = \"ports\"\ntcpConnect = [443]\n";
    let config = Config::load(&with_file(dir.path(), text)).expect("valid");
    let sandbox = &config.sandbox;
    assert_eq!((sandbox.default.name(), sandbox.ceiling.name()), ("out", "web"));
    let offered: Vec<_> = sandbox.offered().map(|profile| profile.name().to_owned()).collect();
    assert_eq!(offered, ["readOnly", "workspaceWriteNoNetwork", "workspaceWrite", "out", "web"]);
    let [out, web] = &sandbox.profiles[..] else { panic!("{:?}", sandbox.profiles) };
    assert_eq!((out.write_roots.as_slice(), out.network.as_ref()), (&[dir.path().join("out")][..], None));
    assert_eq!((out.tmp, out.debug, web.tmp, web.debug), (Some(TmpPolicy::Shared), Some(false), None, None));
    let connect = Some([443].into());
    assert_eq!(web.network, Some(Network::Ports(Ports { connect, bind: None, udp: false })));
    let shown: Vec<_> = config.effective().filter(|entry| entry.key.starts_with("profiles.")).collect();
    assert_eq!(shown.len(), 8);
    assert_eq!((shown[0].key.as_str(), shown[0].value.as_deref()), ("profiles.out.debug", Some("false")));
    assert_eq!(shown[0].source.to_string(), "/etc/sidecar.toml");
    let mut flag = with_file(dir.path(), "[profiles.x]\nextends = \"readOnly\"");
    flag.flags.push(("profile", Raw::Text("x".into())));
    assert_eq!(Config::load(&flag).expect("valid").sandbox.default.name(), "x", "a flag may name it");
}

/// What the program takes is documented; that what is documented exists is shown by the end-to-end tests.
#[test]
fn the_docs_have_every_key() {
    let docs = include_str!("../../../docs/config.md");
    for key in keys::KEYS {
        assert!(docs.contains(&format!("\n| `{}` |", key.name)), "{}", key.name);
    }
    let profiles = docs.split("\n| key of a profile |").nth(1).and_then(|rest| rest.split("\n\n").next());
    for key in keys::PROFILE_KEYS {
        assert!(
            profiles.is_some_and(|table| table.contains(&format!("\n| `{}` |", key.name))),
            "{}",
            key.name
        );
    }
}

#[test]
fn secrets_stay_out_of_what_launches_write() {
    let dir = scratch();
    for (key, place) in [
        ("tokenFile", dir.path().join("token")),
        ("tokenFile", PathBuf::from("/tmp/not/there/token")),
        ("stateDir", dir.path().join("state")),
        ("jwt.sharedSecretFile", dir.path().join("secret")),
    ] {
        let inputs = Inputs {
            cwd: dir.path().to_owned(),
            flags: vec![(key, Raw::Text(place.display().to_string()))],
            ..Inputs::default()
        };
        let message = Config::load(&inputs).expect_err("inside").to_string();
        assert!(message.starts_with(key) && message.contains("lies inside"), "{message}");
    }
    let mut inputs = with_file(dir.path(), "");
    inputs.file = Some((dir.path().join("sidecar.toml"), String::new()));
    assert!(Config::load(&inputs).expect_err("inside").to_string().contains("--config"));
    // What one profile of the operator's own may write to is no place either.
    let other = scratch();
    let profile =
        |roots: &str| format!("[profiles.x]\nextends = \"readOnly\"\n{roots} = [{:?}]", other.path());
    let load = |roots| {
        let mut inputs = with_file(dir.path(), &profile(roots));
        inputs.flags = vec![("tokenFile", Raw::Text(other.path().join("token").display().to_string()))];
        Config::load(&inputs)
    };
    assert!(load("writeRoots").expect_err("inside").to_string().contains("lies inside"));
    assert_eq!(load("readRoots").expect("outside").write_root_of(other.path()), None);
    // Where such a root has become a link that a launch can have made, the server starts all the same.
    let (workspace, keys) = (scratch(), scratch());
    for target in [keys.path(), Path::new("/")] {
        let docs = workspace.path().join("docs");
        std::os::unix::fs::symlink(target, &docs).expect("linked");
        let profile = format!("[profiles.docs]\nextends = \"readOnly\"\nwriteRoots = [{docs:?}]");
        let mut inputs = with_file(workspace.path(), &profile);
        inputs.file = Some((keys.path().join("sidecar.toml"), profile));
        inputs.flags = vec![("tokenFile", Raw::Text(keys.path().join("token").display().to_string()))];
        Config::load(&inputs).expect("no launch writes there");
        // And what leads through one is as good as in there.
        inputs.flags = vec![("tokenFile", Raw::Text(docs.join("token").display().to_string()))];
        assert!(Config::load(&inputs).expect_err("inside").to_string().contains("lies inside"));
        std::fs::remove_file(docs).expect("removed");
    }
}

#[test]
fn signed_tokens_have_one_key_and_a_public_one_an_audience() {
    let (workspace, keys) = (scratch(), scratch());
    let path = |name: &str| keys.path().join(name);
    let load = |flags: &[(&'static str, &str)]| {
        let text = |value: &str| Raw::Text(value.replace("KEYS", &keys.path().display().to_string()));
        let flags = flags.iter().map(|(key, value)| (*key, text(value))).collect();
        Config::load(&Inputs { cwd: workspace.path().to_owned(), flags, ..Inputs::default() })
    };
    let public = ("jwt.publicKeyFile", "KEYS/public");
    let secret = ("jwt.sharedSecretFile", "KEYS/secret");
    let audience = ("jwt.audience", "sidecar");
    let config = load(&[public, audience, ("jwt.issuer", "x")]).expect("valid");
    let expected = SignedTokens {
        key: SigningKey::Public(path("public")),
        issuer: Some("x".into()),
        audience: Some("sidecar".into()),
        skew: Duration::from_secs(30),
    };
    assert_eq!(config.auth, AuthMode::Signed(expected));
    assert!(config.sandbox.roots.protected.contains(&path("public")), "no launch may put another one there");
    assert!(matches!(load(&[secret]).expect("valid").auth, AuthMode::Signed(_)));
    for (flags, named) in [
        (&[public][..], "jwt.audience"),
        (&[public, secret, audience], "jwt.sharedSecretFile"),
        (&[secret, ("tokenFile", "KEYS/token")], "tokenFile"),
        (&[audience], "jwt.publicKeyFile"),
    ] {
        let message = load(flags).expect_err(named).to_string();
        assert!(message.contains(named), "{message}");
    }
    let mut open = with_env(workspace.path(), &[("SANDBOX_SIDECAR_JWT_SHARED_SECRET_FILE", "/etc/secret")]);
    let message = Config::load(&open).expect_err("both").to_string();
    assert!(message.contains("insecureNoAuth") && message.contains("jwt.sharedSecretFile"), "{message}");
    open.flags.clear();
    Config::load(&open).expect("one of them");
}

#[test]
fn a_generated_token_lies_in_the_state_directory() {
    let (workspace, state) = (scratch(), scratch());
    let dir = state.path().join("made");
    let inputs = Inputs {
        cwd: workspace.path().to_owned(),
        flags: vec![("stateDir", Raw::Text(dir.display().to_string()))],
        ..Inputs::default()
    };
    let config = Config::load(&inputs).expect("valid");
    assert_eq!(config.auth, AuthMode::Generated(dir.join("token")));
    assert!(dir.is_dir() && config.sandbox.roots.protected.contains(&dir));
    assert_eq!(config.listen, [ListenUrl::DEFAULT]);
}

#[test]
fn embedded_listens_nowhere() {
    let dir = scratch();
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(dir.path(), &link).expect("a symlink");
    let config = Config::embedded(link).expect("valid");
    assert!(config.listen.is_empty());
    assert_eq!(config.workspace_root(), dir.path().canonicalize().expect("real"));
    assert!(Config::embedded(PathBuf::from("/nope")).is_err());
}

#[test]
fn the_admin_port() {
    let dir = scratch();
    let admin = |text: &str| Config::load(&with_env(dir.path(), &[("SANDBOX_SIDECAR_ADMIN_LISTEN", text)]));
    let addr = |text: &str| admin(text).expect("valid").admin_listen.map(|addr| addr.to_string());
    let default = Config::load(&inputs(dir.path())).expect("valid").admin_listen;
    assert_eq!(default.map(|addr| addr.to_string()).as_deref(), Some("127.0.0.1:9464"));
    assert_eq!(addr("0.0.0.0:0").as_deref(), Some("0.0.0.0:0"));
    assert_eq!(addr(""), None);
    let message = admin("localhost:1").expect_err("no address").to_string();
    assert!(message.contains("adminListen") && message.contains("IP:PORT"), "{message}");
}

#[test]
fn on_stdio_alone_the_admin_port_is_only_where_it_is_asked_for() {
    let dir = scratch();
    let addr = |listen: &str, admin: Option<&str>| {
        let mut inputs = with_env(dir.path(), &[("SANDBOX_SIDECAR_LISTEN", listen)]);
        inputs.flags.extend(admin.map(|admin| ("adminListen", Raw::Text(admin.into()))));
        Config::load(&inputs).expect("valid").admin_listen.map(|addr| addr.to_string())
    };
    assert_eq!(addr("stdio://", None), None);
    assert_eq!(addr("stdio://", Some("")), None);
    assert_eq!(addr("stdio://", Some("127.0.0.1:9464")).as_deref(), Some("127.0.0.1:9464"));
    for more in ["stdio://,ws://127.0.0.1:0", "unix:///run/sidecar.sock", "unix:///run/a,stdio://"] {
        assert_eq!(addr(more, None).as_deref(), Some("127.0.0.1:9464"), "{more}");
    }
}

#[test]
fn where_the_audit_trail_may_be() {
    let (dir, outside) = (scratch(), scratch());
    let load = |sink: &str| Config::load(&with_env(dir.path(), &[("SANDBOX_SIDECAR_AUDIT_SINK", sink)]));
    let file = outside.path().join("audit.log");
    let config = load(&format!("file:{}", file.display())).expect("valid");
    assert_eq!(config.audit.sink, AuditSink::File(file.clone()));
    assert!(config.sandbox.roots.protected.contains(&file));
    assert!(config.sandbox.roots.protected.contains(&rotated(&file, 5)), "the rotated ones too");
    for sink in ["file:audit.log", "unix:/tmp/socket", "file:/dev/shm/a"] {
        let message = load(sink).expect_err("inside").to_string();
        assert!(message.starts_with("audit.sink") && message.contains("lies inside"), "{message}");
    }
    for sink in ["file:", "syslog", "tcp:x"] {
        let message = load(sink).expect_err("no sink").to_string();
        assert!(message.contains("audit.sink") && message.contains("unix:PATH"), "{message}");
    }
    let bad = with_file(dir.path(), "[audit]\nredact = [\"a\", \"(\"]");
    let message = Config::load(&bad).expect_err("no pattern").to_string();
    assert!(message.contains("audit.redact") && message.contains("regular expression"), "{message}");
    assert_eq!(Config::embedded(dir.path().to_owned()).expect("valid").audit.sink, AuditSink::None);
}
