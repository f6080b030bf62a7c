//! Each path that a client sends or gets, one by one, and that nothing else changes.

use std::path::Path;

use serde_json::{Value, json};

use super::*;

fn translator() -> Translator {
    Translator::new(Mapping::new(Path::new("/nowhere/pro ject"), Some(Path::new("/ws"))))
}

fn sent(method: &str, params: Value) -> Result<Value, RpcError> {
    let raw = value(&params);
    let sent = translator().params(method, &raw)?;
    Ok(serde_json::from_str(sent.get()).unwrap())
}

fn told(method: &str, result: Value) -> Value {
    serde_json::from_str(translator().result(method, &value(&result)).get()).unwrap()
}

#[test]
fn a_launch_in_either_spelling() {
    for (cwd, there) in
        [("file:///nowhere/pro%20ject/a%20b", "file:///ws/a%20b"), ("/nowhere/pro ject/./x/..", "/ws")]
    {
        let params = json!({ "processId": "p", "argv": ["/nowhere/pro ject/x"], "cwd": cwd, "unknown": [1] });
        let mut expected = params.clone();
        expected["cwd"] = there.into();
        assert_eq!(sent("process/start", params).unwrap(), expected);
    }
}

#[test]
fn a_launch_outside_is_refused_and_names_both_roots() {
    let error = sent("process/start", json!({ "cwd": "file:///nowhere" })).unwrap_err();
    assert_eq!(error.code, error::INVALID_REQUEST);
    assert!(
        error.message.contains("/nowhere/pro ject") && error.message.contains("/ws"),
        "{}",
        error.message
    );
}

#[test]
fn probes_outside_find_nothing_and_changes_are_refused() {
    for method in
        ["fs/getMetadata", "fs/readFile", "fs/readDirectory", "fs/canonicalize", "fs/walk", "fs/open"]
    {
        let error = sent(method, json!({ "path": "file:///nowhere/.git" })).unwrap_err();
        assert_eq!(error.code, error::NOT_FOUND, "{method}");
        assert!(sent(method, json!({ "path": "file:///nowhere/pro%20ject/.git" })).is_ok(), "{method}");
    }
    for (method, params) in [
        ("fs/writeFile", json!({ "path": "/etc/x", "dataBase64": "" })),
        ("fs/remove", json!({ "path": "/etc/x" })),
        ("fs/createDirectory", json!({ "path": "/etc/x" })),
        ("fs/open", json!({ "path": "/etc/x", "mode": "replace" })),
        ("fs/copy", json!({ "sourcePath": "/nowhere/pro ject/a", "destinationPath": "/etc/x" })),
        ("fs/rename", json!({ "sourcePath": "/etc/x", "destinationPath": "/nowhere/pro ject/a" })),
    ] {
        assert_eq!(sent(method, params).unwrap_err().code, error::INVALID_REQUEST, "{method}");
    }
}

#[test]
fn what_is_no_path_is_the_servers_to_refuse() {
    for params in [json!({ "path": "relative" }), json!({ "path": 3 }), json!([]), json!({})] {
        assert_eq!(sent("fs/readFile", params.clone()).unwrap(), params);
    }
    let unknown = json!({ "path": "/etc", "cwd": "/etc" });
    assert_eq!(sent("future/method", unknown.clone()).unwrap(), unknown);
    assert_eq!(sent("process/write", unknown.clone()).unwrap(), unknown);
}

#[test]
fn a_sandbox_keeps_what_has_a_counterpart() {
    let entry =
        |path: &str, access: &str| json!({ "path": { "type": "path", "path": path }, "access": access });
    let special =
        json!({ "path": { "type": "special", "value": { "kind": "root" } }, "access": "read", "x": 1 });
    let sandbox = |entries: Value, roots: Value, cwd: &str| {
        json!({ "path": format!("{cwd}/f"), "sandbox": {
            "permissions": { "type": "managed", "network": "restricted",
                "file_system": { "type": "restricted", "entries": entries } },
            "cwd": cwd, "workspaceRoots": roots, "useLegacyLandlock": false,
        } })
    };
    let here = sandbox(
        json!([special, entry("/nowhere/pro ject/a", "write"), entry("/home/me", "write")]),
        json!(["file:///nowhere/pro%20ject", "file:///home/me"]),
        "/nowhere/pro ject",
    );
    let there = sandbox(json!([special, entry("/ws/a", "write")]), json!(["file:///ws"]), "/ws");
    assert_eq!(sent("fs/writeFile", here).unwrap(), there);
    let denied = sandbox(json!([entry("/home/me/.ssh", "deny")]), json!([]), "/nowhere/pro ject");
    assert_eq!(sent("fs/writeFile", denied).unwrap_err().code, error::INVALID_REQUEST);
    let no_sandbox = json!({ "path": "/nowhere/pro ject", "sandbox": null });
    assert_eq!(sent("fs/readFile", no_sandbox).unwrap(), json!({ "path": "/ws", "sandbox": null }));
}

#[test]
fn of_a_watch_those_outside_are_left_out() {
    let missing = json!(["file:///nowhere/pro%20ject/.git", "file:///nowhere/.git", "file:///.git"]);
    let params = json!({ "watchId": 1, "missing": missing, "present": null });
    let expected = json!({ "watchId": 1, "missing": ["file:///ws/.git"], "present": null });
    assert_eq!(sent("fs/watchMissing", params).unwrap(), expected);
}

#[test]
fn replies_are_told_as_paths_here() {
    assert_eq!(
        told("fs/canonicalize", json!({ "path": "file:///ws/a%20b" })),
        json!({ "path": "file:///nowhere/pro%20ject/a%20b" })
    );
    assert_eq!(told("fs/canonicalize", json!({ "path": "/usr/bin" })), json!({ "path": "/usr/bin" }));
    let walk = |root: &str| {
        json!({ "entries": [{ "path": format!("{root}/a"), "kind": "file" }],
            "errors": [{ "path": format!("{root}/b"), "message": "no" }], "truncated": false })
    };
    assert_eq!(told("fs/walk", walk("/ws")), walk("/nowhere/pro ject"));
    let link = |target: &str| json!({ "isSymlink": true, "symlinkTarget": target });
    assert_eq!(told("fs/getMetadata", link("/ws/x")), link("/nowhere/pro ject/x"));
    assert_eq!(told("fs/getMetadata", link("../x")), link("../x"));
    let content = json!({ "dataBase64": "L3dz", "path": "/ws" });
    assert_eq!(told("fs/readFile", content.clone()), content);

    let data = ErrorData { path: Some("/ws/a".into()), ..ErrorData::default() };
    let error = translator().error(RpcError::new(error::NOT_FOUND, "x").with_data(&data));
    assert_eq!(error.data.unwrap()["path"], "/nowhere/pro ject/a");

    let change = value(&json!({ "watchId": "w", "paths": ["/ws/a", "/other"], "overflow": false }));
    let change: Value = serde_json::from_str(translator().changed(&change).unwrap().get()).unwrap();
    assert_eq!(
        change,
        json!({ "watchId": "w", "paths": ["/nowhere/pro ject/a", "/other"], "overflow": false })
    );
}

#[test]
fn the_greeting_speaks_of_this_side() {
    let greeting = |root: &str| {
        json!({ "sessionId": "s", "environmentInfo": {
            "cwd": root, "userHomeDir": "file:///home/agent", "tempDir": "file:///tmp",
            "temporaryDirectories": [format!("{root}/tmp")], "prependPathDirs": ["file:///usr/lib/x"],
            "shell": { "name": "sh", "path": "/bin/sh" },
            "sidecar": { "workspaceRoot": root, "version": "1" }, "future": { "cwd": root.len() },
        } })
    };
    let there = value(&greeting("file:///ws"));
    let here: Value = serde_json::from_str(translator().greeting(&there).get()).unwrap();
    let mut expected = greeting("file:///nowhere/pro%20ject");
    expected["environmentInfo"]["future"] = json!({ "cwd": "file:///ws".len() });
    assert_eq!(here, expected);
}
