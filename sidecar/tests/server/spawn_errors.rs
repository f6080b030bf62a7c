//! A launch that fails says what was wrong: the program, the cwd, or the rules.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::common::{Client, Fixture, uri, with};
use crate::lines::{Setting, over_each_transport};

over_each_transport![
    a_missing_program,
    case_20_a_missing_cwd_does_not_read_as_a_missing_program,
    case_20_a_file_as_cwd,
    case_20_a_cwd_without_permission,
    case_20_a_missing_interpreter,
    case_20_a_directory_as_program,
    case_20_a_file_of_no_known_format,
    a_program_that_the_policy_does_not_grant,
];

const ENOENT: i32 = 2;
const EACCES: i32 = 13;
const ENOTDIR: i32 = 20;

async fn failure(setting: &mut Setting, params: Value) -> Value {
    let (client, fixture): (&mut Client, &Fixture) = (&mut setting.client, &setting.fixture);
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

async fn a_missing_program(mut setting: Setting) {
    let params = setting.fixture.command("p", &["/usr/bin/no-such-program"]);
    let error = failure(&mut setting, params).await;
    is(&error, "spawnNotFound", "exec", ENOENT, "/usr/bin/no-such-program");
    let params = setting.fixture.command("q", &["no-such-program"]);
    let error = failure(&mut setting, params).await;
    is(&error, "spawnNotFound", "exec", ENOENT, "no-such-program");
}

async fn case_20_a_missing_cwd_does_not_read_as_a_missing_program(mut setting: Setting) {
    let missing = setting.fixture.ws("missing");
    let params = with(setting.fixture.command("p", &["true"]), "cwd", json!(missing));
    let error = failure(&mut setting, params).await;
    is(&error, "cwdNotFound", "cwd", ENOENT, &missing.display().to_string());
    let params = with(setting.fixture.command("q", &["true"]), "cwd", json!(uri(&missing)));
    let error = failure(&mut setting, params).await;
    is(&error, "cwdNotFound", "cwd", ENOENT, &uri(&missing));
}

async fn case_20_a_file_as_cwd(mut setting: Setting) {
    let file = setting.fixture.ws("file");
    std::fs::write(&file, "").expect("written");
    let params = with(setting.fixture.command("p", &["true"]), "cwd", json!(file));
    let error = failure(&mut setting, params).await;
    is(&error, "cwdNotFound", "cwd", ENOTDIR, &file.display().to_string());
}

async fn case_20_a_cwd_without_permission(mut setting: Setting) {
    let dir = setting.fixture.ws("closed");
    std::fs::create_dir(&dir).expect("made");
    std::fs::set_permissions(&dir, Permissions::from_mode(0o000)).expect("closed");
    let params = with(setting.fixture.command("p", &["true"]), "cwd", json!(dir));
    let error = failure(&mut setting, params).await;
    is(&error, "permissionDenied", "cwd", EACCES, &dir.display().to_string());
}

async fn case_20_a_missing_interpreter(mut setting: Setting) {
    let path = script(&setting.fixture, "script", "#!/nope/interpreter\n");
    let params = setting.fixture.command("p", &[&path]);
    let error = failure(&mut setting, params).await;
    is(&error, "notExecutable", "exec", ENOENT, &path);
    assert!(error["message"].as_str().expect("a message").contains("interpreter"), "{error}");
}

async fn case_20_a_directory_as_program(mut setting: Setting) {
    let dir = setting.fixture.ws("dir");
    std::fs::create_dir(&dir).expect("made");
    let path = dir.display().to_string();
    let params = setting.fixture.command("p", &[&path]);
    let error = failure(&mut setting, params).await;
    is(&error, "notExecutable", "exec", EACCES, &path);
}

async fn case_20_a_file_of_no_known_format(mut setting: Setting) {
    let path = script(&setting.fixture, "blob", "\u{1}\u{2}\u{3}\u{4}");
    let params = setting.fixture.command("p", &[&path]);
    let error = failure(&mut setting, params).await;
    is(&error, "notExecutable", "exec", 8, &path);
}

async fn a_program_that_the_policy_does_not_grant(mut setting: Setting) {
    let outside = setting.fixture.outside("true");
    std::fs::copy("/bin/true", &outside).expect("copied");
    let path = outside.display().to_string();
    let params = setting.fixture.command("p", &[&path]);
    let error = failure(&mut setting, params).await;
    is(&error, "permissionDenied", "exec", EACCES, &path);
    // The same program inside starts.
    let (client, fixture) = (&mut setting.client, &setting.fixture);
    std::fs::copy("/bin/true", fixture.ws("true")).expect("copied");
    let inside = fixture.ws("true").display().to_string();
    assert_eq!(client.run(fixture.command("q", &[&inside])).await.code(), 0);
}
