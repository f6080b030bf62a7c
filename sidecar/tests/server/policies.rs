//! What a request's `sandbox` comes to, over the wire: profiles, each kind of entry of the stock client's permissions,
//! receipts, refusals, hints.

use std::sync::Arc;

use sandbox_sidecar::config::Config;
use serde_json::{Value, json};
use sidecar_sandbox::{CarveOuts, CustomProfile, Network, OnUnsupported, Ports, Profile};

use crate::common::{Client, Fixture, Transcript, with};

/// The stock client's permissions: the system to read, and these entries.
fn permissions(fixture: &Fixture, entries: &[Value]) -> Value {
    let system = json!({ "path": { "type": "special", "value": { "kind": "minimal" } }, "access": "read" });
    let entries: Vec<_> = std::iter::once(&system).chain(entries).collect();
    json!({
        "permissions": {
            "type": "managed",
            "file_system": { "type": "restricted", "entries": entries },
            "network": "restricted",
        },
        "cwd": fixture.ws(""),
        "workspaceRoots": [fixture.ws("")],
    })
}

fn special(kind: &str, access: &str) -> Value {
    json!({ "path": { "type": "special", "value": { "kind": kind } }, "access": access })
}

fn place(fixture: &Fixture, name: &str, access: &str) -> Value {
    json!({ "path": { "type": "path", "path": fixture.ws(name) }, "access": access })
}

fn glob(pattern: &str, access: &str) -> Value {
    json!({ "path": { "type": "glob_pattern", "pattern": pattern }, "access": access })
}

/// The receipt, and what the script said.
async fn run(client: &mut Client, start: Value) -> (Value, Transcript) {
    let id = start["processId"].as_str().expect("an id").to_owned();
    let started = client.call("process/start", start).await;
    (started["enforcement"].clone(), client.follow(&id).await)
}

fn told(receipt: &Value, text: &str) -> bool {
    let gaps = receipt["unenforced"].as_array().expect("gaps");
    gaps.iter().any(|gap| gap["what"].as_str().is_some_and(|what| what.contains(text)))
}

#[tokio::test]
async fn a_receipt_tells_the_ports() {
    let fixture = Fixture::with(|config| {
        let connect = Some([443, 8080].into());
        config.sandbox.network = Network::Ports(Ports { connect, bind: None, udp: false });
    })
    .await;
    let mut client = fixture.client().await;
    let start = |id, mode| with(fixture.shell(id, "true"), "sandbox", json!({ "mode": mode }));
    let started = client.call("process/start", start("a", "workspaceWrite")).await;
    assert_eq!(started["enforcement"]["network"], json!({ "tcpConnect": [443, 8080], "udp": false }));
    let started = client.call("process/start", start("b", "hostDefault")).await;
    assert_eq!(started["enforcement"].get("network"), None, "it has no network at all");
}

fn with_profile(config: &mut Config) {
    let profile = CustomProfile {
        name: "docs".into(),
        extends: Profile::ReadOnly,
        read_roots: vec![],
        write_roots: vec![config.workspace_root().join("docs")],
        network: None,
        tmp: None,
        debug: None,
    };
    std::fs::create_dir(config.workspace_root().join("docs")).expect("made");
    config.sandbox.profiles = vec![Arc::new(profile)];
}

#[tokio::test]
async fn a_profile_of_the_operators_is_offered_and_taken() {
    let fixture = Fixture::with(with_profile).await;
    let mut client = fixture.client().await;
    let info = client.call("environment/info", json!({})).await;
    let profiles = json!(["readOnly", "workspaceWriteNoNetwork", "workspaceWrite", "docs"]);
    assert_eq!(info["sidecar"]["profiles"], profiles);
    let script = "echo x > docs/f && cat docs/f; echo x > f";
    let docs = with(fixture.shell("p", script), "sandbox", json!({ "mode": "docs" }));
    let (receipt, done) = run(&mut client, docs).await;
    assert_eq!((receipt["profile"].as_str(), done.out().as_str()), (Some("docs"), "x\n"), "{}", done.err());
    assert!(done.code() != 0 && !fixture.ws("f").exists());
    // File operations go by it too.
    let write =
        |name: &str| json!({ "path": fixture.ws(name), "dataBase64": "eA==", "sandbox": { "mode": "docs" } });
    client.call("fs/writeFile", write("docs/g")).await;
    client.refused("fs/writeFile", write("g")).await;
    // Its root stays, whoever else may write there.
    let error = client.refused("fs/remove", json!({ "path": fixture.ws("docs") })).await;
    assert!(
        error["message"].as_str().is_some_and(|m| m.contains("is a root of the sandbox policy")),
        "{error}"
    );
    client.call("fs/remove", json!({ "path": fixture.ws("docs/g") })).await;
    let unknown = with(fixture.shell("q", "true"), "sandbox", json!({ "mode": "doc" }));
    let error = client.refused("process/start", unknown).await;
    assert_eq!(error["code"], -32602);
    assert!(
        error["message"].as_str().is_some_and(|m| m.contains("docs") && m.contains("readOnly")),
        "{error}"
    );
}

#[tokio::test]
async fn each_kind_of_entry() {
    let fixture = Fixture::start().await;
    let mut client = fixture.client().await;
    for file in ["a/f", "b/f.pem", "b/f"] {
        let file = fixture.ws(file);
        std::fs::create_dir_all(file.parent().expect("a parent")).expect("made");
        std::fs::write(file, "content\n").expect("written");
    }
    let write = "echo new 2>/dev/null > a/f";
    let read_a = "cat a/f";
    let cases = [
        // What the entries are, a script, what it prints, what the receipt names.
        (vec![], read_a, "", ""),
        (vec![special("root", "read")], read_a, "content\n", ""),
        (vec![special("root", "write")], "echo x > a/w && cat a/w", "x\n", "write access to /"),
        (vec![special("current_working_directory", "read")], read_a, "content\n", ""),
        (vec![special("project_roots", "write")], "echo x > n && cat n", "x\n", ""),
        (vec![special("tmpdir", "write")], "f=/tmp/entry-$$; echo x > $f && cat $f; rm $f", "x\n", ""),
        (vec![special("slash_tmp", "write")], "f=/tmp/entry-$$; echo x > $f && cat $f; rm $f", "x\n", ""),
        (vec![special("unheard_of", "read"), special("root", "read")], read_a, "content\n", "unheard_of"),
        (vec![place(&fixture, "a", "read")], "cat a/f; cat b/f", "content\n", ""),
        (vec![place(&fixture, "a/f", "write")], "echo y > a/f && cat a/f", "y\n", ""),
        (
            vec![special("project_roots", "read"), place(&fixture, "a", "deny")],
            "cat b/f; cat a/f",
            "content\n",
            "",
        ),
        (
            vec![special("project_roots", "read"), place(&fixture, "a", "none")],
            "cat b/f; cat a/f",
            "content\n",
            "",
        ),
        (vec![glob("b/*.pem", "read")], "cat b/f.pem; cat b/f", "content\n", "new files that match"),
        (
            vec![special("project_roots", "read"), glob("**/*.pem", "deny")],
            "cat b/f; cat b/f.pem",
            "content\n",
            "",
        ),
        (vec![special("project_roots", "write"), place(&fixture, "a", "read")], write, "", "read-only"),
    ];
    for (n, (entries, script, output, gap)) in cases.into_iter().enumerate() {
        std::fs::write(fixture.ws("a/f"), "content\n").expect("written");
        let params = fixture.shell(&format!("p{n}"), script);
        let (receipt, done) =
            run(&mut client, with(params, "sandbox", permissions(&fixture, &entries))).await;
        assert_eq!(done.out(), output, "{entries:?}: {}", done.err());
        assert_eq!(receipt["profile"], "custom");
        assert!(told(&receipt, gap), "{entries:?} {gap}: {receipt}");
    }
    assert_eq!(
        std::fs::read_to_string(fixture.ws("a/f")).expect("read"),
        "new\n",
        "the carve-out is declared"
    );
}

#[tokio::test]
async fn what_cannot_be_honoured_names_the_entry() {
    let fixture = Fixture::with(|config| config.sandbox.carve_outs = CarveOuts::Reject).await;
    let mut client = fixture.client().await;
    std::fs::create_dir(fixture.ws("a")).expect("made");
    let gone = place(&fixture, "gone", "read");
    let all = special("project_roots", "write");
    let cases = [
        (vec![all.clone(), place(&fixture, "a", "read")], "carveOuts"),
        (vec![all.clone(), glob("a/*.rs", "read")], "a/*.rs"),
        (vec![glob("a/[", "deny")], "a/["),
        (vec![special("root", "deny")], "denies /"),
        (vec![gone.clone()], "gone"),
        (vec![place(&fixture, "gone", "write")], "gone"),
        (vec![place(&fixture, "gone", "deny")], "gone"),
        (vec![place(&fixture, "a", "deny"), place(&fixture, "a", "write")], "denied"),
    ];
    for (entries, name) in cases {
        let params = with(fixture.shell("p", "true"), "sandbox", permissions(&fixture, &entries));
        let error = client.refused("process/start", params).await;
        assert_eq!(error["code"], -32600, "{error}");
        assert!(error["message"].as_str().is_some_and(|message| message.contains(name)), "{name}: {error}");
    }
    for (n, access) in ["read", "write", "deny"].into_iter().enumerate() {
        let skipped = with(place(&fixture, "gone", access), "missing_path_behavior", json!("skip"));
        let params = fixture.shell(&format!("s{n}"), "echo ok");
        let sandbox = permissions(&fixture, &[special("root", "read"), skipped]);
        let (receipt, done) = run(&mut client, with(params, "sandbox", sandbox)).await;
        assert_eq!((done.out().as_str(), told(&receipt, "denied")), ("ok\n", access == "deny"), "{access}");
    }
    // An explicit write entry for the same path wins over a carve-out.
    let both = permissions(&fixture, &[all, place(&fixture, "a", "read"), place(&fixture, "a", "write")]);
    let (_, done) =
        run(&mut client, with(fixture.shell("w", "echo x > a/f; cat a/f"), "sandbox", both)).await;
    assert_eq!(done.out(), "x\n");
}

#[tokio::test]
async fn without_landlock_only_who_asked_for_it_is_degraded() {
    let degraded = Fixture::with(|config| {
        config.sandbox.max_abi = Some(0);
        config.sandbox.on_unsupported = OnUnsupported::Degrade;
    })
    .await;
    let mut client = degraded.client().await;
    let (receipt, done) = run(&mut client, degraded.shell("p", "echo ran")).await;
    assert_eq!((done.out().as_str(), &receipt["status"]), ("ran\n", &json!("partial")));
    assert_eq!(
        (&receipt["parts"]["fsWrite"], &receipt["parts"]["seccomp"]),
        (&json!("unsupported"), &json!("full"))
    );
    assert!(told(&receipt, "files"), "{receipt}");
    let refused = Fixture::with(|config| config.sandbox.max_abi = Some(0)).await;
    let error = refused.client().await.refused("process/start", refused.shell("p", "true")).await;
    assert_eq!(error["data"]["kind"], "sandboxUnavailable");
}

#[tokio::test]
async fn hints_say_which_key_and_call_a_guess_a_guess() {
    let secret = "secret";
    let fixture = Fixture::with(|config| {
        config.sandbox.roots.protected.push(config.workspace_root().join(secret));
        let connect = Some([1].into());
        config.sandbox.network = Network::Ports(Ports { connect, bind: None, udp: false });
        std::fs::create_dir(config.workspace_root().join(secret)).expect("made");
        std::fs::write(config.workspace_root().join(secret).join("k"), "").expect("written");
        std::fs::write(config.workspace_root().join("file"), "").expect("written");
    })
    .await;
    let mut client = fixture.client().await;
    let protected = format!("nothing: {:?} is protected", fixture.ws(secret));
    let bash = |text: &str| format!("exec bash -c '{text}'");
    let outside = fixture.outside("x");
    std::fs::write(&outside, "").expect("written");
    let outside_root = format!("{:?}", outside.parent().expect("a parent"));
    let cases = [
        ("hostDefault", format!("cat {}/k", fixture.ws(secret).display()), protected),
        ("hostDefault", format!("cat {}", outside.display()), format!("readRoots += {outside_root}")),
        ("readOnly", String::from("echo x > ./file"), String::from("profile = \"workspaceWriteNoNetwork\"")),
        (
            "readOnly",
            String::from("chmod 600 file"),
            String::from("a profile that writes: workspaceWriteNoNetwork (a guess)"),
        ),
        (
            "readOnly",
            format!("echo x > {}", outside.display()),
            format!("writeRoots += {outside_root}, and a profile that writes: workspaceWriteNoNetwork"),
        ),
        (
            "readOnly",
            bash(": < /dev/tcp/127.0.0.1/9"),
            // The ceiling's list comes first; without it in the way, the hint is the profile.
            String::from("network.tcpConnect += 9 (a guess)"),
        ),
        (
            "workspaceWrite",
            bash(": < /dev/tcp/127.0.0.1/9"),
            String::from("network.tcpConnect += 9 (a guess)"),
        ),
        (
            "workspaceWrite",
            bash(": < /dev/udp/127.0.0.1/9"),
            String::from("network.udp = true, where it was about UDP (a guess)"),
        ),
    ];
    for (n, (mode, script, hint)) in cases.into_iter().enumerate() {
        let params = with(fixture.shell(&format!("p{n}"), &script), "sandbox", json!({ "mode": mode }));
        let (_, done) = run(&mut client, params).await;
        assert_eq!(done.exited["sandboxDenied"], true, "{mode} {script}: {}", done.err());
        assert_eq!(done.exited["hint"], json!(hint), "{mode} {script}: {}", done.err());
    }
    // A denial that is not the sandbox's has no hint.
    let (_, done) = run(&mut client, fixture.shell("own", "echo file: permission denied >&2; exit 1")).await;
    assert_eq!((&done.exited["sandboxDenied"], done.exited.get("hint")), (&json!(true), None));
}
