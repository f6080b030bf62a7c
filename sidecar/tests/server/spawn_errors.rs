//! A launch that fails says what was wrong: the program, the cwd, or the rules.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::common::{Fixture, uri, with};

const ENOENT: i32 = 2;
const EACCES: i32 = 13;
const ENOTDIR: i32 = 20;

async fn failure(fixture: &Fixture, params: Value) -> Value {
    let mut client = fixture.client().await;
    let error = client.refused("process/start", params.clone()).await;
    // The id is free again.
    let id = params["processId"].as_str().expect("an id").to_owned();
    assert_eq!(client.refused("process/read", json!({ "processId": id })).await["code"], -32600);
    client.run(fixture.command(&id, &["true"])).await;
    error
}

#[track_caller]
fn is(error: &Value, kind: &str, stage: &str, errno: i32, path: &str) {
    assert_eq!(error["code"], -32603, "{error}");
    let data = &error["data"];
    let seen = (&data["kind"], &data["stage"], &data["errno"], &data["path"]);
    assert_eq!(seen, (&json!(kind), &json!(stage), &json!(errno), &json!(path)), "{error}");
    assert!(
        error["message"]
            .as_str()
            .expect("a message")
            .contains(Path::new(path).file_name().and_then(|n| n.to_str()).expect("a name")),
        "{error}"
    );
}

fn script(fixture: &Fixture, name: &str, text: &str) -> String {
    let path = fixture.ws(name);
    std::fs::write(&path, text).expect("written");
    std::fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("executable");
    path.display().to_string()
}

#[tokio::test]
async fn a_missing_program() {
    let fixture = Fixture::start().await;
    let error = failure(&fixture, fixture.command("p", &["/usr/bin/no-such-program"])).await;
    is(&error, "spawnNotFound", "exec", ENOENT, "/usr/bin/no-such-program");
    let error = failure(&fixture, fixture.command("p", &["no-such-program"])).await;
    is(&error, "spawnNotFound", "exec", ENOENT, "no-such-program");
}

#[tokio::test]
async fn case_20_a_missing_cwd_does_not_read_as_a_missing_program() {
    let fixture = Fixture::start().await;
    let missing = fixture.ws("missing");
    let error = failure(&fixture, with(fixture.command("p", &["true"]), "cwd", json!(missing))).await;
    is(&error, "cwdNotFound", "cwd", ENOENT, &missing.display().to_string());
    let error = failure(&fixture, with(fixture.command("p", &["true"]), "cwd", json!(uri(&missing)))).await;
    is(&error, "cwdNotFound", "cwd", ENOENT, &uri(&missing));
}

#[tokio::test]
async fn case_20_a_file_as_cwd() {
    let fixture = Fixture::start().await;
    let file = fixture.ws("file");
    std::fs::write(&file, "").expect("written");
    let error = failure(&fixture, with(fixture.command("p", &["true"]), "cwd", json!(file))).await;
    is(&error, "cwdNotFound", "cwd", ENOTDIR, &file.display().to_string());
}

#[tokio::test]
async fn case_20_a_cwd_without_permission() {
    let fixture = Fixture::start().await;
    let dir = fixture.ws("closed");
    std::fs::create_dir(&dir).expect("made");
    std::fs::set_permissions(&dir, Permissions::from_mode(0o000)).expect("closed");
    let error = failure(&fixture, with(fixture.command("p", &["true"]), "cwd", json!(dir))).await;
    is(&error, "permissionDenied", "cwd", EACCES, &dir.display().to_string());
}

#[tokio::test]
async fn case_20_a_missing_interpreter() {
    let fixture = Fixture::start().await;
    let path = script(&fixture, "script", "#!/nope/interpreter\n");
    let error = failure(&fixture, fixture.command("p", &[&path])).await;
    is(&error, "notExecutable", "exec", ENOENT, &path);
    assert!(error["message"].as_str().expect("a message").contains("interpreter"), "{error}");
}

#[tokio::test]
async fn case_20_a_directory_as_program() {
    let fixture = Fixture::start().await;
    let dir = fixture.ws("dir");
    std::fs::create_dir(&dir).expect("made");
    let path = dir.display().to_string();
    let error = failure(&fixture, fixture.command("p", &[&path])).await;
    is(&error, "notExecutable", "exec", EACCES, &path);
}

#[tokio::test]
async fn case_20_a_file_of_no_known_format() {
    let fixture = Fixture::start().await;
    let path = script(&fixture, "blob", "\u{1}\u{2}\u{3}\u{4}");
    let error = failure(&fixture, fixture.command("p", &[&path])).await;
    is(&error, "notExecutable", "exec", 8, &path);
}

#[tokio::test]
async fn a_program_that_the_policy_does_not_grant() {
    let fixture = Fixture::start().await;
    let outside = fixture.outside("true");
    std::fs::copy("/bin/true", &outside).expect("copied");
    let path = outside.display().to_string();
    let error = failure(&fixture, fixture.command("p", &[&path])).await;
    is(&error, "permissionDenied", "exec", EACCES, &path);
    // The same program inside starts.
    std::fs::copy("/bin/true", fixture.ws("true")).expect("copied");
    let inside = fixture.ws("true").display().to_string();
    assert_eq!(fixture.client().await.run(fixture.command("p", &[&inside])).await.code(), 0);
}
