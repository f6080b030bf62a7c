//! The stdin and stdout of a program: any that leads to a sidecar, and `kubectl exec` into a pod.

use std::ffi::OsString;
use std::fmt;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, ChildStderr, Command};

use super::{Connection, lines};
use crate::error::Error;

/// Of what the program says on stderr, this much of the end is told where it fails.
const STDERR_BYTES: usize = 2 << 10;

/// What the sidecar is called in its container, where nothing else is said.
const DEFAULT_PROGRAM: &str = "sandbox-sidecar";

/// A program and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    argv: Vec<OsString>,
}

impl Program {
    /// `program` is looked up in PATH; no shell is put in between.
    pub fn new(program: impl Into<OsString>, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        let argv = [program.into()].into_iter().chain(args.into_iter().map(Into::into));
        Self { argv: argv.collect() }
    }

    /// Starts it. It is killed when the connection is dropped.
    pub(super) fn connect(&self) -> Result<Connection, Error> {
        let [program, args @ ..] = self.argv.as_slice() else { unreachable!("a program has a name") };
        let failed = |cause| Error::Program { program: program.clone(), cause };
        let mut child = Command::new(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A Ctrl-C at the terminal is for the command that it carries, and comes as a request.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(failed(std::io::Error::other("it has no pipes")));
        };
        let said = Said::collect(stderr);
        let name = program.to_string_lossy().into_owned();
        let end = stream::once(async move { Err(end_of(child, &name, said).await) });
        Ok(Connection {
            incoming: Box::pin(lines::incoming(stdout).chain(end)),
            outgoing: lines::outgoing(stdin),
            pings: false,
        })
    }
}

/// Why there is nothing more from it.
async fn end_of(mut child: Child, name: &str, said: Said) -> String {
    let status = match child.wait().await {
        Ok(status) => status.to_string(),
        Err(e) => e.to_string(),
    };
    match said.all().await.trim() {
        "" => format!("{name} ended ({status})"),
        text => format!("{name} ended ({status}): {text}"),
    }
}

/// The end of what it says on stderr.
struct Said {
    text: Arc<Mutex<Vec<u8>>>,
    reader: tokio::task::JoinHandle<()>,
}

impl Said {
    fn collect(mut stderr: ChildStderr) -> Self {
        let text = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&text);
        let reader = tokio::spawn(async move {
            let mut block = [0; 1 << 10];
            while let Ok(len @ 1..) = stderr.read(&mut block).await {
                let mut text = sink.lock().unwrap_or_else(PoisonError::into_inner);
                text.extend_from_slice(&block[..len]);
                let excess = text.len().saturating_sub(STDERR_BYTES);
                text.drain(..excess);
            }
        });
        Self { text, reader }
    }

    /// Once the program has ended. A child of its own may hold its stderr open for longer; that is not waited for.
    async fn all(self) -> String {
        const PATIENCE: Duration = Duration::from_secs(1);
        let _ = tokio::time::timeout(PATIENCE, self.reader).await;
        String::from_utf8_lossy(&self.text.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

/// A pod whose sidecar is reached by `kubectl exec`, without a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// The kubectl program.
    pub kubectl: OsString,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub pod: String,
    /// The container that the sidecar runs in; `None` leaves the choice to kubectl.
    pub container: Option<String>,
    /// The `sandbox-sidecar` program there, a path or a name.
    pub program: String,
    /// What its `connect` is told; `None` leaves it to the config that the sidecar there runs by.
    pub target: Option<String>,
}

impl Pod {
    /// Parses `NAMESPACE/POD[/CONTAINER]`; the rest is as it is by default.
    ///
    /// # Errors
    /// A sentence that says what was expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let expected = || format!("{text:?} names no pod; expected NAMESPACE/POD or NAMESPACE/POD/CONTAINER");
        let parts: Vec<&str> = text.split('/').collect();
        let (namespace, pod, container) = match parts[..] {
            [namespace, pod] => (namespace, pod, None),
            [namespace, pod, container] => (namespace, pod, Some(container)),
            _ => return Err(expected()),
        };
        // A name that starts with a dash would be an option of kubectl's.
        let is_name = |name: &str| !name.is_empty() && !name.starts_with('-');
        if !is_name(namespace) || !is_name(pod) || container.is_some_and(|name| !is_name(name)) {
            return Err(expected());
        }
        Ok(Self {
            kubectl: "kubectl".into(),
            namespace: namespace.to_owned(),
            pod: pod.to_owned(),
            container: container.map(str::to_owned),
            program: DEFAULT_PROGRAM.to_owned(),
            target: None,
        })
    }

    /// The command line.
    pub(super) fn program(&self) -> Program {
        let mut args: Vec<&str> = vec!["exec", "-i", "-n", &self.namespace, &self.pod];
        if let Some(container) = &self.container {
            args.extend(["-c", container]);
        }
        args.extend(["--", &self.program, "connect"]);
        args.extend(self.target.as_deref());
        Program::new(&self.kubectl, args)
    }
}

/// For people.
impl fmt::Display for Pod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pod {}/{}", self.namespace, self.pod)?;
        self.container.iter().try_for_each(|container| write!(f, "/{container}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods() {
        let words = |pod: &Pod| pod.program().argv.join(" ".as_ref()).into_string().unwrap();
        let mut pod = Pod::parse("team/agent-0/sidecar").unwrap();
        assert_eq!(words(&pod), "kubectl exec -i -n team agent-0 -c sidecar -- sandbox-sidecar connect");
        pod.program = "/tools/sandbox-sidecar".to_owned();
        pod.target = Some("unix:/run/x.sock".to_owned());
        assert!(words(&pod).ends_with(" -- /tools/sandbox-sidecar connect unix:/run/x.sock"));
        assert_eq!(words(&Pod::parse("team/agent-0").unwrap()).matches("-c").count(), 0);
        for text in ["team/agent-0", "team/agent-0/sidecar"] {
            assert_eq!(Pod::parse(text).unwrap().to_string(), format!("pod {text}"));
        }
        for text in ["agent-0", "", "a/b/c/d", "a//b", "/b", "a/", "a/--kubeconfig=x"] {
            assert!(Pod::parse(text).unwrap_err().contains("expected NAMESPACE/POD"), "{text}");
        }
    }

    #[tokio::test]
    async fn a_program_that_fails_is_quoted() {
        let failing = Program::new("sh", ["-c", "echo pod not found >&2; exit 3"]);
        let mut connection = failing.connect().unwrap();
        let Some(Err(reason)) = connection.incoming.next().await else { panic!("no reason") };
        assert!(reason.contains("exit status: 3") && reason.ends_with("pod not found"), "{reason}");
        let missing = Program::new("no-such-program", [""; 0]).connect().unwrap_err().to_string();
        assert!(missing.contains("no-such-program"), "{missing}");
    }

    #[tokio::test]
    async fn messages_go_through_a_program() {
        use super::super::{Received, Sent};
        use futures_util::SinkExt as _;
        let mut connection = Program::new("cat", [""; 0]).connect().unwrap();
        connection.outgoing.send(Sent::Text("{}".into())).await.unwrap();
        let Some(Ok(Received::Text(text))) = connection.incoming.next().await else { panic!("no echo") };
        assert_eq!(text, "{}");
    }
}
