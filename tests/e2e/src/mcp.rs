//! A running `agent-client mcp`, and an MCP client that hides nothing.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};

use serde_json::{Value, json};

use crate::server::clean_environment;
use crate::{GIVE_UP, Server, programs};

/// A running server; ended on drop.
#[derive(Debug)]
pub struct Mcp {
    child: Child,
    stdin: Option<ChildStdin>,
    messages: Receiver<Value>,
    /// Messages that came while another one was waited for.
    waiting: VecDeque<Value>,
    next_id: u64,
    /// What the server said in the handshake.
    pub greeting: Value,
}

impl Mcp {
    /// The command line of a server that leads to `server`, for clients whose files are below `local_root`.
    pub fn command(server: &Server, local_root: &Path) -> Command {
        let mut command = Command::new(programs::agent_client());
        clean_environment(&mut command, server.scratch());
        command.args(["mcp", "--sidecar-url", server.url(), "--local-root"]).arg(local_root);
        command.arg("--token-file").arg(server.scratch().state().join("e2e-token"));
        command
    }

    /// Starts one in the server's own workspace, and does the handshake.
    pub fn start<A: AsRef<OsStr>>(server: &Server, args: &[A]) -> Self {
        let mut command = Self::command(server, &server.workspace());
        command.args(args);
        Self::spawn(command)
    }

    /// Starts it by a command line, and does the handshake.
    pub fn spawn(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, messages) = mpsc::channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let message = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{line:?}: {e}"));
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        let stdin = child.stdin.take();
        let mut mcp =
            Self { child, stdin, messages, waiting: VecDeque::new(), next_id: 0, greeting: Value::Null };
        let hello = json!({
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "e2e", "version": "1"}
        });
        mcp.greeting = mcp.request("initialize", hello)["result"].take();
        mcp.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        mcp
    }

    /// Sends a message as it is.
    pub fn send(&mut self, message: &Value) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(format!("{message}\n").as_bytes()).unwrap();
        stdin.flush().unwrap();
    }

    /// Sends a request; its id.
    pub fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.next_id += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params}));
        self.next_id
    }

    /// Sends a request and waits for its answer, all of it.
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        self.answer(id)
    }

    /// Waits for the answer to a request.
    pub fn answer(&mut self, id: u64) -> Value {
        self.wait_for(|message| message["id"] == id)
    }

    /// Waits for a message.
    pub fn wait_for(&mut self, is: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.waiting.iter().position(&is) {
            return self.waiting.remove(at).unwrap();
        }
        loop {
            let message = self.messages.recv_timeout(GIVE_UP).expect("the message never came");
            if is(&message) {
                return message;
            }
            self.waiting.push_back(message);
        }
    }

    /// The messages that have come and that nobody has asked for.
    pub fn unclaimed(&self) -> impl Iterator<Item = &Value> {
        self.waiting.iter()
    }

    /// Calls a tool; its result.
    pub fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.call_with(tool, arguments, json!({}))
    }

    /// Calls a tool with `_meta`; its result.
    pub fn call_with(&mut self, tool: &str, arguments: Value, meta: Value) -> Value {
        let mut answer =
            self.request("tools/call", json!({"name": tool, "arguments": arguments, "_meta": meta}));
        assert!(answer["error"].is_null(), "{tool}: {answer:#}");
        answer["result"].take()
    }

    /// Calls a tool that does its work; the structured result.
    pub fn done(&mut self, tool: &str, arguments: Value) -> Value {
        let mut result = self.call(tool, arguments);
        assert_eq!(result["isError"], false, "{tool}: {result:#}");
        result["structuredContent"].take()
    }

    /// Calls a tool that fails; what it says.
    pub fn refused(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], true, "{tool}: {result:#}");
        text(&result)
    }

    /// Ends the client's side, and waits until the server has ended.
    pub fn end(mut self) -> Option<i32> {
        drop(self.stdin.take());
        self.child.wait().unwrap().code()
    }
}

/// The text of a result.
pub fn text(result: &Value) -> String {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result:#}")).to_owned()
}

impl Drop for Mcp {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
