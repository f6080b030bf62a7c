//! The examples in docs/ do what they say.

use std::process::Command;

use e2e::Server;

#[test]
fn the_python_agent() {
    let server = Server::start();
    let output = Command::new("python3")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/agent.py"))
        .arg(server.url())
        .arg(server.scratch().state().join("e2e-token"))
        .output()
        .unwrap();
    let (stdout, stderr) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "scripts/setup.sh tools installs what it imports\n{stderr}");
    let expected = "$ uname -s; echo note > note.txt\nLinux\n[exit code 0]\n$ cat note.txt; exit 3\nnote\n[exit code 3]\n";
    assert_eq!(stdout, expected);
    assert!(server.workspace().join("note.txt").exists());
}
