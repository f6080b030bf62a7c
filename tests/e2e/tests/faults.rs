//! The machine runs out of something, or loses something, under a server that others use: the error says of what, who is
//! served already goes on, and once it is there again everything works.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::ffi::OsStr;
use std::fs;
use std::process::Command;
use std::time::Duration;

use e2e::client::encode;
use e2e::{Client, Scratch, Server, until};
use futures_util::future::join_all;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use serde_json::{Value, json};

/// Room that is left to a server that is to run out of memory, bytes.
const HEADROOM: u64 = 4 << 20;

fn start(server: &Server, process: &str, argv: &[&str]) -> Value {
    json!({
        "processId": process, "argv": argv, "cwd": server.workspace(), "tty": false, "pipeStdin": true,
        "env": { "PATH": "/usr/local/bin:/usr/bin:/bin" },
    })
}

/// Sets a soft limit of a running process, as prlimit(1) names it.
fn limit(pid: u32, what: &str, value: &str) {
    let set =
        Command::new("prlimit").arg("--pid").arg(pid.to_string()).arg(format!("--{what}={value}:")).status();
    assert!(set.unwrap().success(), "prlimit --{what}={value}:");
}

/// A server with a session that has a `cat`.
async fn with_cat() -> (Server, Client) {
    let server = Server::start();
    server.wait_for_log("\"ready\"");
    let mut client = Client::open(&server).await;
    client.call("process/start", start(&server, "cat", &["cat"])).await.unwrap();
    (server, client)
}

/// Who is served already goes on.
async fn echoes(client: &mut Client, text: &str) {
    client.call("process/write", json!({ "processId": "cat", "chunk": encode(text) })).await.unwrap();
    let output = client.of_process("cat", "output").await;
    assert_eq!(output["chunk"], encode(text));
}

/// Launches until one fails; gives the error.
async fn until_refused(client: &mut Client, server: &Server) -> Value {
    for n in 0..250 {
        if let Err(error) =
            client.call("process/start", start(server, &format!("p{n}"), &["sleep", "600"])).await
        {
            return error;
        }
    }
    panic!("nothing was refused");
}

fn is_limit(error: &Value, errno: i32) {
    assert_eq!(
        (&error["data"]["kind"], &error["data"]["errno"]),
        (&json!("limit"), &json!(errno)),
        "{error}"
    );
}

/// Makes the threads for blocking work, as many as launches at once take, which stay for a while. One that is started while
/// memory is short can find none for its signal stack: Rust's runtime ends it then, in the middle of a launch.
async fn busy_once(server: &Server) {
    let launch = async |n: usize| {
        let mut client = Client::open(server).await;
        let mut params = start(server, &format!("busy{n}"), &["true"]);
        params["pipeStdin"] = json!(false);
        client.run(params).await;
    };
    join_all((0..16).map(launch)).await;
}

/// Launches work again.
async fn works(client: &mut Client, server: &Server) {
    let mut params = start(server, "again", &["echo", "again"]);
    params["pipeStdin"] = json!(false);
    assert_eq!(client.run(params).await.stdout, "again\n");
}

#[tokio::test]
async fn out_of_descriptors() {
    let (server, mut client) = with_cat().await;
    // One more at a time, so that every step of a launch fails once.
    let mut refused = 0;
    for most in 16..1024 {
        limit(server.pid(), "nofile", &most.to_string());
        match client.call("process/start", start(&server, &format!("p{most}"), &["sleep", "600"])).await {
            Err(error) => is_limit(&error, nix::libc::EMFILE),
            Ok(_) => break,
        }
        refused += 1;
    }
    assert!(refused > 10, "the control: it ran out {refused} times");
    limit(server.pid(), "nofile", "16");
    echoes(&mut client, "still here").await;
    // Nobody is turned away for good: this one waits to be accepted.
    let waiting = Client::connect(&server);
    let served = async {
        echoes(&mut client, "and here").await;
        limit(server.pid(), "nofile", "1024");
    };
    let (mut late, ()) = tokio::join!(waiting, served);
    late.initialize().await;
    works(&mut client, &server).await;
}

#[tokio::test]
async fn out_of_memory_at_a_launch() {
    let (server, mut client) = with_cat().await;
    busy_once(&server).await;
    let statm = fs::read_to_string(format!("/proc/{}/statm", server.pid())).unwrap();
    let pages: u64 = statm.split(' ').next().unwrap().parse().unwrap();
    // Not much more address space than there is: the stacks of a few more shims.
    limit(server.pid(), "as", &(pages * 4096 + HEADROOM).to_string());
    let error = until_refused(&mut client, &server).await;
    is_limit(&error, nix::libc::ENOMEM);
    echoes(&mut client, "still here").await;
    limit(server.pid(), "as", "unlimited");
    works(&mut client, &server).await;
}

#[tokio::test]
async fn out_of_processes() {
    if geteuid().is_root() {
        eprintln!("passed over: the kernel does not count root's processes");
        return;
    }
    let (server, mut client) = with_cat().await;
    // The threads for blocking work have left by then, 10 s after the last of it: what is waited for is that time itself.
    tokio::time::sleep(Duration::from_secs(25)).await;
    limit(server.pid(), "nproc", "1");
    // Several at once, which all need one.
    let others = join_all((0..4).map(|_| Client::open(&server)));
    let (error, others) = tokio::join!(until_refused(&mut client, &server), others);
    is_limit(&error, nix::libc::EAGAIN);
    echoes(&mut client, "still here").await;
    for mut other in others {
        is_limit(&until_refused(&mut other, &server).await, nix::libc::EAGAIN);
    }
    limit(server.pid(), "nproc", "4096");
    works(&mut client, &server).await;
}

/// Below ABI 6 a launch can stop its shim; the server ends the tree itself then, by a thread that it cannot have here.
#[tokio::test]
async fn out_of_processes_with_a_stopped_shim() {
    if geteuid().is_root() {
        eprintln!("passed over: the kernel does not count root's processes");
        return;
    }
    let server = Server::builder().arg("--max-abi").arg("5").start();
    server.wait_for_log("\"ready\"");
    let mut client = Client::open(&server).await;
    let mark = format!("601.{}", std::process::id());
    let script = format!("kill -STOP $PPID; echo up; exec sleep {mark}");
    client.call("process/start", start(&server, "stopper", &["sh", "-c", &script])).await.unwrap();
    client.of_process("stopper", "output").await;
    limit(server.pid(), "nproc", "1");
    client.call("process/terminate", json!({ "processId": "stopper", "graceMs": 0 })).await.unwrap();
    until("the tree is gone", || e2e::alive(&mark) == 0).await;
    limit(server.pid(), "nproc", "4096");
    client.of_process("stopper", "closed").await;
    works(&mut client, &server).await;
}

/// The same, and its shim has as many orders already as it can have: nothing more gets through to it.
#[tokio::test]
async fn a_stopped_shim_that_takes_no_order() {
    let server = Server::builder().arg("--max-abi").arg("5").start();
    let mut client = Client::open(&server).await;
    let mark = format!("602.{}", std::process::id());
    let script = format!("kill -STOP $PPID; echo up; exec sleep {mark}");
    client.call("process/start", start(&server, "stopper", &["sh", "-c", &script])).await.unwrap();
    client.of_process("stopper", "output").await;
    // An order has twelve bytes, a pipe 64 KiB.
    for _ in 0..6000 {
        let signal = json!({ "processId": "stopper", "signal": "user1" });
        client.call("process/signal", signal).await.unwrap();
    }
    client.call("process/terminate", json!({ "processId": "stopper", "graceMs": 0 })).await.unwrap();
    until("the tree is gone", || e2e::alive(&mark) == 0).await;
    client.of_process("stopper", "closed").await;
    works(&mut client, &server).await;
}

#[tokio::test]
async fn out_of_disk() {
    if !geteuid().is_root() {
        eprintln!("passed over: only root can mount a small file system");
        return;
    }
    let scratch = Scratch::new();
    let workspace = scratch.workspace();
    // In a mount namespace of its own, so that nothing is left of it.
    let script =
        "mount --make-rprivate / && mount -t tmpfs -o size=1m,nr_inodes=8 small \"$0\" && exec \"$@\"";
    let under = ["unshare", "--mount", "sh", "-c", script].map(OsStr::new);
    let server =
        Server::builder().scratch(scratch).under(&[&under[..], &[workspace.as_os_str()]].concat()).start();
    // Until then it tries what it can enforce, with files of its own in the workspace.
    server.wait_for_log("\"ready\"");
    let mut client = Client::open(&server).await;
    client.call("process/start", start(&server, "cat", &["cat"])).await.unwrap();
    let path = |name: &str| workspace.join(name).display().to_string();
    let write =
        |name: &str, bytes: usize| json!({ "path": path(name), "dataBase64": encode(vec![b'x'; bytes]) });
    client.call("fs/writeFile", write("kept", 1000)).await.unwrap();
    let error = client.call("fs/writeFile", write("kept", 2 << 20)).await.unwrap_err();
    assert_eq!(error["data"]["kind"], "noSpace", "{error}");
    // The old content, and nothing of the new one beside it.
    let read = client.call("fs/readFile", json!({ "path": path("kept") })).await.unwrap();
    assert_eq!(read["dataBase64"], encode(vec![b'x'; 1000]));
    let listed = client.call("fs/readDirectory", json!({ "path": workspace })).await.unwrap();
    assert_eq!(listed["entries"].as_array().unwrap().len(), 1, "{listed}");
    // Of three contents there would not be room for one more: what was replaced is gone once there is need for its room.
    for _ in 0..50 {
        client.call("fs/writeFile", write("kept", 480 << 10)).await.unwrap();
    }
    client.call("fs/writeFile", write("kept", 1000)).await.unwrap();
    // No room for another name either: that is no reason to write in place.
    for n in 0.. {
        if client.call("fs/writeFile", write(&format!("spare{n}"), 1)).await.is_err() {
            break;
        }
    }
    let error = client.call("fs/writeFile", write("kept", 2000)).await.unwrap_err();
    assert_eq!(error["data"]["kind"], "noSpace", "{error}");
    let open = json!({ "handleId": "h", "path": path("kept"), "mode": "replace" });
    let error = client.call("fs/open", open).await.unwrap_err();
    assert_eq!(error["data"]["kind"], "noSpace", "{error}");
    let read = client.call("fs/readFile", json!({ "path": path("kept") })).await.unwrap();
    assert_eq!(read["dataBase64"], encode(vec![b'x'; 1000]));
    for spare in ["spare0", "spare1"] {
        client.call("fs/remove", json!({ "path": path(spare) })).await.unwrap();
    }
    let mut fill = start(&server, "fill", &["dd", "if=/dev/zero", "of=full", "bs=64k", "count=64"]);
    fill["pipeStdin"] = json!(false);
    let filled = client.run(fill).await;
    assert!(filled.code() != 0 && filled.stderr.contains("No space left"), "{filled:?}");
    echoes(&mut client, "still here").await;
    client.call("fs/remove", json!({ "path": path("full") })).await.unwrap();
    client.call("fs/writeFile", write("kept", 2000)).await.unwrap();
    works(&mut client, &server).await;
}

/// Its tree is nobody's then: the server finds and ends it.
#[tokio::test]
async fn a_shim_that_dies() {
    let (server, mut client) = with_cat().await;
    let mark = format!("600.{}", std::process::id());
    let script = format!("setsid sleep {mark} & echo up; wait");
    client.call("process/start", start(&server, "lost", &["sh", "-c", &script])).await.unwrap();
    client.of_process("lost", "output").await;
    let listed = client.call("process/list", json!({})).await.unwrap();
    let lost = listed["processes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|process| process["processId"] == "lost")
        .unwrap();
    let pid = lost["pid"].as_u64().unwrap();
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let shim: i32 = stat.rsplit_once(") ").unwrap().1.split(' ').nth(1).unwrap().parse().unwrap();
    assert_ne!(shim.unsigned_abs(), server.pid());
    kill(Pid::from_raw(shim), Signal::SIGKILL).unwrap();
    let exited = client.of_process("lost", "exited").await;
    assert_eq!((&exited["exitCode"], &exited["signal"]), (&json!(137), &json!("SIGKILL")), "{exited}");
    client.of_process("lost", "closed").await;
    let read = client.call("process/read", json!({ "processId": "lost" })).await.unwrap();
    assert!(read["failure"].as_str().is_some_and(|why| why.contains("lost")), "{read}");
    until("the tree is gone", || e2e::alive(&mark) == 0).await;
    echoes(&mut client, "still here").await;
    works(&mut client, &server).await;
}
