//! The sandbox: what it refuses, what it lets work, what it keeps to itself.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::common::{Fixture, uri, with};
use crate::lines::{Setting, over_each_transport};

over_each_transport![
    case_21_paths_that_cannot_be_granted,
    case_22_git_and_pip,
    case_23_python_without_a_network,
    case_24_truncation_and_comm,
    case_34_the_legacy_flag_is_accepted,
];
over_each_transport![bare: case_29_nothing_but_the_output];

fn sandboxed(params: Value, sandbox: Value) -> Value {
    with(params, "sandbox", sandbox)
}

/// The stock client's permissions: what is listed, and the places without which nothing runs.
fn permissions(entries: Vec<Value>) -> Value {
    let mut all =
        vec![json!({ "path": { "type": "special", "value": { "kind": "minimal" } }, "access": "read" })];
    all.extend(entries);
    json!({ "permissions": { "type": "managed", "file_system": { "type": "restricted", "entries": all } } })
}

fn reading(path: &Path, missing: Option<&str>) -> Value {
    json!({ "path": { "type": "path", "path": path }, "access": "read", "missing_path_behavior": missing })
}

async fn case_21_paths_that_cannot_be_granted(mut setting: Setting) {
    let (client, fixture) = (&mut setting.client, &setting.fixture);
    std::fs::write(fixture.ws("secret"), "secret").expect("written");
    for name in ["granted", "closed/inner"] {
        std::fs::create_dir_all(fixture.ws(name)).expect("made");
    }
    std::fs::set_permissions(fixture.ws("closed"), Permissions::from_mode(0o000)).expect("closed");
    let start = |id: &str, entry: Value| {
        let entries = vec![reading(&fixture.ws("granted"), None), entry];
        sandboxed(fixture.command(id, &["cat", "secret"]), permissions(entries))
    };
    let missing = fixture.ws("missing");
    let error = client.refused("process/start", start("refused", reading(&missing, None))).await;
    assert_eq!((&error["code"], &error["data"]["kind"]), (&json!(-32600), &json!("notFound")), "{error}");
    let skipped = client.run(start("skipped", reading(&missing, Some("skip")))).await;
    assert!(skipped.code() != 0 && skipped.out().is_empty(), "without the path, and confined");
    // Root may grant what is closed to others. Whoever may not is told so; nobody gets more than was asked for.
    let id =
        client.request("process/start", start("closed", reading(&fixture.ws("closed/inner"), None))).await;
    match client.outcome(id).await {
        Ok(_) => assert_eq!(client.follow("closed").await.out(), ""),
        Err(error) => assert_eq!(error["data"]["kind"], "permissionDenied", "{error}"),
    }
    std::fs::set_permissions(fixture.ws("closed"), Permissions::from_mode(0o755)).expect("set");
    // Positive control: granted, it is read.
    let granted = client.run(start("granted", reading(&fixture.ws("secret"), None))).await;
    assert_eq!(granted.out(), "secret", "{}", granted.err());
}

/// Runs a script that fails at its first failing line, with its home in the workspace.
async fn works(setting: &mut Setting, id: &str, script: &str) {
    let fixture: &Fixture = &setting.fixture;
    let mut params = fixture.shell(id, &format!("set -eux\n{script}"));
    params["env"]["HOME"] = json!(fixture.ws(""));
    let done = setting.client.run(params).await;
    assert_eq!(done.code(), 0, "{}{}", done.out(), done.err());
}

async fn case_22_git_and_pip(mut setting: Setting) {
    works(&mut setting, "mv", "mkdir a b; echo x > a/x; mv a/x b/; test ! -e a/x; test \"$(cat b/x)\" = x")
        .await;
    let git = r#"
        export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
        git init -q repo; cd repo; git commit -q --allow-empty -m one; git worktree add -q ../tree
        cd ../tree; echo y > y; git add y; git commit -q -m two; git status >/dev/null
        test "$(git log --format=%s | wc -l)" = 2"#;
    works(&mut setting, "git", git).await;
    let pip = r#"
        python3 -c '
        import zipfile
        with zipfile.ZipFile("thing-1-py3-none-any.whl", "w") as wheel:
            wheel.writestr("thing.py", "x = 1")
            wheel.writestr("thing-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: thing\nVersion: 1\n")
            wheel.writestr("thing-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr("thing-1.dist-info/RECORD", "")'
        # The interpreter itself: version managers put wrappers around pip that do more than it does.
        python=$(python3 -c 'import sys; print(sys.executable)')
        "$python" -m pip install -q --no-index --no-deps --target target ./thing-1-py3-none-any.whl
        PYTHONPATH=target "$python" -c 'import thing; assert thing.x == 1'"#;
    let has_pip = std::process::Command::new("python3").args(["-m", "pip", "--version"]).output();
    if has_pip.is_ok_and(|output| output.status.success()) {
        works(&mut setting, "pip", &pip.replace("\n        ", "\n")).await;
    }
}

async fn case_23_python_without_a_network(mut setting: Setting) {
    let script = "python3 -c '
import asyncio, multiprocessing, os, socket
os.memfd_create(\"m\")
os.openpty()
assert socket.if_nameindex()
async def child():
    process = await asyncio.create_subprocess_exec(\"true\")
    assert await process.wait() == 0
asyncio.run(child())
with multiprocessing.Pool(2) as pool:
    assert pool.map(abs, [-1, -2]) == [1, 2]
'";
    works(&mut setting, "python", script).await;
}

async fn case_24_truncation_and_comm(mut setting: Setting) {
    let (client, fixture) = (&mut setting.client, &setting.fixture);
    std::fs::write(fixture.ws("file"), "content").expect("written");
    // Readable, and outside of all that may be written.
    let truncate = fixture.command("truncate", &["truncate", "-s0", "file"]);
    let denied = client.run(sandboxed(truncate, json!({ "mode": "readOnly" }))).await;
    assert!(denied.code() != 0 && denied.err().contains("ermission denied"), "{}", denied.err());
    assert_eq!(std::fs::read_to_string(fixture.ws("file")).expect("read"), "content");
    assert_eq!(client.run(fixture.command("control", &["truncate", "-s0", "file"])).await.code(), 0);
    // A process's own files in /proc are read-only to it too.
    let rename = "echo x > /proc/self/comm";
    let denied = client.run(fixture.shell("comm", rename)).await;
    assert!(denied.code() != 0 && denied.err().contains("ermission denied"), "{}", denied.err());
    let control = std::process::Command::new("sh").args(["-c", rename]).status().expect("it runs");
    assert!(control.success(), "positive control: without the sandbox it may");
}

async fn case_34_the_legacy_flag_is_accepted(mut setting: Setting) {
    let (client, fixture) = (&mut setting.client, &setting.fixture);
    let mut sandbox = permissions(vec![reading(&fixture.ws(""), None)]);
    sandbox["useLegacyLandlock"] = json!(true);
    sandbox["cwd"] = json!(uri(&fixture.ws("")));
    let start = sandboxed(fixture.shell("p", "echo ok; touch file"), sandbox);
    let started = client.call("process/start", start).await;
    assert_eq!(started["enforcement"]["status"], "full", "{started}");
    let done = client.follow("p").await;
    assert!(done.out() == "ok\n" && done.code() != 0 && !fixture.ws("file").exists(), "{}", done.err());
}

async fn case_29_nothing_but_the_output(setting: Setting) {
    // The kernel of an older node: less is enforced.
    let transport = setting.transport;
    drop(setting);
    let mut setting = Setting::with_abi(transport, Some(1)).await;
    setting.client.open().await;
    let (client, fixture) = (&mut setting.client, &setting.fixture);
    std::fs::create_dir(fixture.ws("dir")).expect("made");
    std::fs::write(fixture.ws("dir/file"), "content").expect("written");
    let argv = ["tar", "--sort=name", "-cf", "-", "dir"];
    let started = client.call("process/start", fixture.command("p", &argv)).await;
    assert_eq!(started["enforcement"]["status"], "partial", "{started}");
    let seen = client.follow("p").await;
    let expected = std::process::Command::new("tar").args(&argv[1..]).current_dir(fixture.ws("")).output();
    assert!(seen.stdout == expected.expect("tar").stdout && seen.err().is_empty(), "{}", seen.err());
}
