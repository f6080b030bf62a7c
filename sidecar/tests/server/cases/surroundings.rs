//! What is around the server: a workspace behind a symlink, a noisy home, an empty environment, secrets in its own.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command};

use serde_json::json;

use super::until;
use crate::common::{Client, Fixture, scratch};
use crate::lines::{Lines, Setting, announced, over_each_transport, over_tcp, stdio_server, ws_server};

over_each_transport![case_28_shell_profiles_are_not_run];

/// How the client of a server of its own reaches it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Ws,
    Stdio,
}

/// A server of its own, that is changed before it starts. It ends with the test.
struct Server {
    client: Client,
    child: Child,
    fixture: Fixture,
}

impl Server {
    async fn start(way: Way, change: impl FnOnce(&mut Command, &Fixture)) -> Server {
        let fixture = Fixture::start().await;
        let workspace = fixture.ws("");
        Server::within(way, &workspace, fixture, change).await
    }

    /// In another workspace than the fixture's.
    async fn within(
        way: Way,
        workspace: &Path,
        fixture: Fixture,
        change: impl FnOnce(&mut Command, &Fixture),
    ) -> Server {
        let mut command = match way {
            Way::Ws => ws_server(workspace),
            Way::Stdio => stdio_server(workspace, None),
        };
        change(&mut command, &fixture);
        let mut child = command.spawn().expect("the server starts");
        let mut client = match way {
            Way::Ws => over_tcp(announced(&mut child)).await,
            Way::Stdio => Client::linked(Lines::of(&mut child)),
        };
        client.open().await;
        Server { client, child, fixture }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a test over both ways, as two tests.
macro_rules! over_both_ways {
    ($($test:ident),+ $(,)?) => {$(
        mod $test {
            use super::Way;

            #[tokio::test]
            async fn ws() {
                super::$test(Way::Ws).await;
            }

            #[tokio::test]
            async fn stdio() {
                super::$test(Way::Stdio).await;
            }
        }
    )+};
}

over_both_ways![
    case_27_the_workspace_is_a_symlink,
    case_35_no_secret_in_any_environment,
    case_36_nothing_in_the_environment,
];

async fn case_27_the_workspace_is_a_symlink(way: Way) {
    let (real, links) = (scratch(), scratch());
    let link = links.path().join("ws");
    symlink(real.path(), &link).expect("linked");
    let mut server = Server::within(way, &link, Fixture::start().await, |_, _| {}).await;
    let (client, fixture) = (&mut server.client, &server.fixture);
    let run = |id: &str, script: &str| {
        let mut params = fixture.shell(id, script);
        params["cwd"] = json!(link);
        params
    };
    assert_eq!(client.run(run("write", "echo by launch > file")).await.code(), 0);
    client.call("fs/createDirectory", json!({ "path": link.join("dir") })).await;
    assert!(real.path().join("file").exists() && real.path().join("dir").exists());
    // It goes, and comes again while the server runs.
    // The server's check of itself may be making a file there just now, which is gone soon.
    until("the workspace is gone", || std::fs::remove_dir_all(real.path()).is_ok()).await;
    let error = client.refused("process/start", run("none", "true")).await;
    assert!(error["message"].as_str().expect("a message").contains("workspace"), "{error}");
    let error = client.refused("fs/readFile", json!({ "path": link.join("file") })).await;
    assert!(error["message"].as_str().expect("a message").contains("workspace"), "{error}");
    std::fs::create_dir(real.path()).expect("made");
    assert_eq!(client.run(run("again", "echo again > file")).await.code(), 0);
    let read = client.call("fs/readFile", json!({ "path": link.join("file") })).await;
    assert_eq!(crate::common::decode(&read["dataBase64"]), b"again\n");
}

async fn case_28_shell_profiles_are_not_run(mut setting: Setting) {
    let (client, fixture) = (&mut setting.client, &setting.fixture);
    for name in [".profile", ".bashrc", ".bash_profile"] {
        std::fs::write(fixture.ws(name), "echo noise; echo noise >&2; touch noise\n").expect("written");
    }
    for (id, argv) in [
        ("argv", &["echo", "out"][..]),
        ("sh", &["sh", "-c", "echo out"]),
        ("bash", &["bash", "-c", "echo out"]),
    ] {
        let mut params = fixture.command(id, argv);
        params["env"]["HOME"] = json!(fixture.ws(""));
        let done = client.run(params).await;
        assert_eq!((done.out().as_str(), done.err().as_str()), ("out\n", ""), "{id}");
    }
    assert!(!fixture.ws("noise").exists());
    // Positive control: a shell that is asked to be a login shell runs them.
    let mut params = fixture.command("login", &["sh", "-lc", "echo out"]);
    params["env"]["HOME"] = json!(fixture.ws(""));
    assert_eq!(client.run(params).await.out(), "noise\nout\n");
}

async fn case_35_no_secret_in_any_environment(way: Way) {
    const SECRET: &str = "sk-5ec12e7";
    let mut server = Server::start(way, |command, _| {
        // Nobody could take the server's own variables for those of a launch, or have them from /proc.
        command.env("SANDBOX_SIDECAR_LOG_FILTER", format!("error,{SECRET}=off").replace('-', "_"));
        command.env("INHERITABLE", "told");
    })
    .await;
    let secret = SECRET.replace('-', "_");
    let script = "env; for file in /proc/[0-9]*/environ; do tr '\\0' '\\n' < $file; done 2>/dev/null; true";
    let mut params = server.fixture.shell("p", script);
    params["envPolicy"] = json!({ "inherit": "all" });
    let seen = server.client.run(params).await;
    assert!(seen.out().contains("PATH="), "positive control: its own is seen");
    assert!(!seen.out().contains(&secret), "the server's own is seen too");
    assert!(!seen.out().contains("SANDBOX_SIDECAR_"), "a variable of the server's own");
}

async fn case_36_nothing_in_the_environment(way: Way) {
    let mut server = Server::start(way, |command, _| {
        command.env_clear();
    })
    .await;
    for (id, argv) in [("echo", ["/bin/echo", "ok"]), ("by-path", ["echo", "ok"])] {
        let mut params = server.fixture.command(id, &argv);
        params["env"] = json!({});
        if id == "by-path" {
            params["env"]["PATH"] = json!("/usr/bin:/bin");
        }
        assert_eq!(server.client.run(params).await.out(), "ok\n", "{id}");
    }
}
