"""Drive the stock Claude Code CLI (npm @anthropic-ai/claude-code, its unmodified release), with a scripted model.

    claude_code.py --as-cli TURNS.json ARG…   the CLI with these arguments, in the caller's own home
    claude_code.py --install                  nothing but the installation; prints where it is

With `-p` among the arguments the model is asked; a turn is [tool, arguments]. Then one line of JSON on stderr has
{tools, outputs}: the tools that the model was offered, and what each turn came to, as [is an error, text].

The CLI is installed on first use under $CLAUDE_CODE_DIR (default ~/.cache/claude-code), at version $CLAUDE_CODE_VERSION.
Its program is a part of the package for the machine's platform; no script of the package runs.
The model listens on loopback; the CLI is told to contact nothing else.
"""

import fcntl
import glob
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading

VERSION = os.environ.get("CLAUDE_CODE_VERSION", "2.1.332")
BASE = os.path.expanduser(os.environ.get("CLAUDE_CODE_DIR", "~/.cache/claude-code"))
PACKAGE = "@anthropic-ai/claude-code"


def cli():
    """The CLI's path; installs it where it is missing, once for any number of callers."""
    os.makedirs(BASE, exist_ok=True)
    with open(f"{BASE}/install.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        package = f"{BASE}/node_modules/{PACKAGE}/package.json"
        if not os.path.exists(package) or json.load(open(package))["version"] != VERSION or not programs():
            if not shutil.which("npm"):
                sys.exit("claude_code.py: npm is needed to install Claude Code (Debian packages nodejs and npm)")
            command = ["npm", "install", "--prefix", BASE, "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel", "error",
                       f"{PACKAGE}@{VERSION}"]
            if subprocess.run(command, cwd=BASE, stdout=sys.stderr).returncode or not programs():
                sys.exit(f"claude_code.py: npm could not install {PACKAGE}@{VERSION}")
    return programs()[0]


def programs():
    """npm leaves the packages of other platforms out."""
    return sorted(glob.glob(f"{BASE}/node_modules/{PACKAGE}-*/claude"))


def events(model, turn):
    """One answer of the model, as server-sent events: a call of a tool, or the end."""
    if turn:
        name, arguments, identifier = turn
        block, stop = {"type": "tool_use", "id": identifier, "name": name, "input": {}}, "tool_use"
        delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
    else:
        block, stop = {"type": "text", "text": ""}, "end_turn"
        delta = {"type": "text_delta", "text": "finished"}
    message = {"id": "m", "type": "message", "role": "assistant", "model": model, "content": [], "stop_reason": None,
               "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
    stream = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]
    return "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in stream).encode()


def text_of(content):
    """Of a tool's result: a string, or blocks."""
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content or [])


def model(turns):
    """Starts the scripted model; gives its server and what it has seen."""
    seen = {"tools": [], "outputs": []}

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *args):
            pass

        def answer(self, status, kind, data):
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self):
            self.answer(404, "text/plain", b"")

        def do_HEAD(self):
            self.answer(200, "text/plain", b"")

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
            if not self.path.startswith("/v1/messages?") and self.path != "/v1/messages":
                return self.answer(404, "text/plain", b"")
            turn = None
            # Questions without tools are the CLI's own, such as for a title.
            if body.get("tools"):
                blocks = [b for m in body["messages"] if isinstance(m["content"], list) for b in m["content"]]
                results = [b for b in blocks if b.get("type") == "tool_result"]
                seen["tools"] = sorted(tool["name"] for tool in body["tools"])
                seen["outputs"] = [[bool(b.get("is_error")), text_of(b.get("content"))] for b in results]
                if len(results) < len(turns):
                    turn = [*turns[len(results)], f"toolu_{len(results)}"]
            self.answer(200, "text/event-stream", events(body.get("model"), turn))

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, seen


def stand_in(turns, arguments):
    """Runs the CLI as it was called, in the caller's own home, with the scripted model; its exit code."""
    program = cli()
    # No tool is held back until the model searches for it: what the model is offered is to be seen.
    env = dict(os.environ, CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1", ENABLE_TOOL_SEARCH="false")
    if "-p" not in arguments:
        return subprocess.run([program, *arguments], env=env, stdin=subprocess.DEVNULL).returncode
    server, seen = model(turns)
    env |= {"ANTHROPIC_BASE_URL": f"http://127.0.0.1:{server.server_port}", "ANTHROPIC_API_KEY": "x"}
    done = subprocess.run([program, *arguments], env=env, stdin=subprocess.DEVNULL)
    server.shutdown()
    print(json.dumps(seen), file=sys.stderr)
    return done.returncode


def main():
    # By hand: argparse would take a `--` out of what is the CLI's.
    match sys.argv[1:]:
        case ["--install"]:
            print(cli())
        case ["--as-cli", turns, *arguments]:
            sys.exit(stand_in(json.loads(open(turns).read()), arguments))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
