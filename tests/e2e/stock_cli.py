"""Drive the stock codex CLI (npm @openai/codex, its unmodified release) against a sidecar, with a scripted model.

    stock_cli.py URL WORKDIR TURNS.json [--sandbox MODE] [--token T] [--environments FILE] [--config FILE]
                 [--before ARGS.json]

prints JSON: {rc, outputs, text}. A turn is [tool, arguments]; "mcp__server/tool" calls an MCP tool; "$SID" in the
arguments becomes the last session id that the CLI told the model.

URL "-" sets no remote environment. --environments is an environments.toml (e.g. with program and args); --config is
TOML that is appended to the CLI's config (e.g. [mcp_servers.x]). --before is a list of the CLI's command lines to run first, in
the same home (e.g. [["plugin", "marketplace", "add", "DIR"]]); their outputs are in "before".

The CLI is installed on first use under $STOCK_CLI_DIR (default ~/.cache/stock-cli), at version $STOCK_CLI_VERSION.
The model listens on loopback; nothing else is contacted.
"""

import argparse
import fcntl
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading

VERSION = os.environ.get("STOCK_CLI_VERSION", "0.171.0")
# Not under the system's folder for temporary files: the CLI refuses to keep its helpers there.
BASE = os.path.expanduser(os.environ.get("STOCK_CLI_DIR", "~/.cache/stock-cli"))


def cli():
    """The CLI's path; installs it where it is missing, once for any number of callers."""
    os.makedirs(BASE, exist_ok=True)
    path = f"{BASE}/node_modules/.bin/codex"
    with open(f"{BASE}/install.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        package = f"{BASE}/node_modules/@openai/codex/package.json"
        installed = os.path.exists(path) and json.load(open(package))["version"]
        if installed != VERSION:
            if not shutil.which("npm"):
                sys.exit("stock_cli.py: npm is needed to install the stock CLI (Debian packages nodejs and npm)")
            command = ["npm", "install", "--prefix", BASE, "--no-audit", "--no-fund", f"@openai/codex@{VERSION}"]
            if subprocess.run(command, cwd=BASE, stdout=sys.stderr).returncode:
                sys.exit(f"stock_cli.py: npm could not install @openai/codex@{VERSION}")
    return path


def events(turn, item):
    """One answer of the model, as server-sent events."""
    usage = {"input_tokens": 1, "input_tokens_details": None, "output_tokens": 1, "output_tokens_details": None,
             "total_tokens": 2}
    stream = [
        {"type": "response.created", "response": {"id": f"r{turn}"}},
        {"type": "response.output_item.done", "item": item},
        {"type": "response.completed", "response": {"id": f"r{turn}", "usage": usage}},
    ]
    return "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in stream).encode()


def session_id(outputs):
    """The last session id in the tools' outputs."""
    found = [m for o in outputs for m in re.findall(r"session ID (\d+)", json.dumps(o))]
    return int(found[-1]) if found else None


def model(turns):
    """Starts the scripted model; gives its server and the list that collects the tools' outputs."""
    seen = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *args):
            pass

        def do_GET(self):
            self.send_response(404)
            self.send_header("content-length", "0")
            self.end_headers()

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
            seen[:] = [i.get("output") for i in body.get("input", [])
                       if isinstance(i, dict) and i.get("type", "").endswith("_output")]
            turn = len(seen)
            if turn < len(turns):
                name, arguments = turns[turn]
                sid = session_id(seen)
                arguments = {k: (sid if v == "$SID" else v) for k, v in arguments.items()}
                namespace, _, name = name.rpartition("/")
                item = {"type": "function_call", "call_id": f"c{turn}", "name": name,
                        "arguments": json.dumps(arguments)}
                if namespace:
                    item["namespace"] = namespace
            else:
                item = {"type": "message", "role": "assistant", "id": "m1",
                        "content": [{"type": "output_text", "text": "finished"}]}
            data = events(turn, item)
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, seen


def provider(server):
    """The flags that make the scripted model the CLI's."""
    mock = (f'{{name="mock",base_url="http://127.0.0.1:{server.server_port}/v1",wire_api="responses",'
            f'supports_websockets=false,env_key="MOCK_KEY"}}')
    return ["-c", 'model_provider="mock"', "-c", f"model_providers.mock={mock}", "-c", 'model="mock-model"',
            "-c", "features.unified_exec=true"]


def stand_in(turns, arguments):
    """Runs the CLI as it was called, in the caller's own home, with the scripted model; its exit code."""
    program = cli()
    if arguments[:1] != ["exec"]:
        return subprocess.run([program, *arguments]).returncode
    server, seen = model(turns)
    done = subprocess.run([program, "exec", *provider(server), *arguments[1:]], stdin=subprocess.DEVNULL,
                          env=dict(os.environ, MOCK_KEY="x"))
    server.shutdown()
    print(json.dumps(seen), file=sys.stderr)
    return done.returncode


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def drive(url, workdir, turns, sandbox="danger-full-access", token=None, timeout=90, environments=None, config=None,
          before=()):
    """Runs the CLI once, until the script is at its end."""
    program = cli()
    server, seen = model(turns)
    home = tempfile.mkdtemp(prefix="home-", dir=BASE)
    env = dict(os.environ, CODEX_HOME=home, HOME=home, MOCK_KEY="x")
    if config:
        write(f"{home}/config.toml", config)
    if environments:
        write(f"{home}/environments.toml", environments)
    elif token and url != "-":
        write(f"{home}/environments.toml",
              f'default = "remote"\ninclude_local = false\n'
              f'[[environments]]\nid = "remote"\nurl = "{url}"\nauth_bearer_token = "{token}"\n')
    elif url != "-":
        env["CODEX_EXEC_SERVER_URL"] = url
    command = [program, "exec", *provider(server), "--skip-git-repo-check", "-s", sandbox, "-C", workdir, "run it"]
    try:
        prepared = [subprocess.run([program, *arguments], env=env, stdin=subprocess.DEVNULL, capture_output=True,
                                   text=True, timeout=timeout, check=True).stdout for arguments in before]
        done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=timeout, cwd=workdir)
    finally:
        server.shutdown()
        shutil.rmtree(home, ignore_errors=True)
    return {"rc": done.returncode, "outputs": list(seen), "text": (done.stdout + done.stderr)[-3000:],
            "before": prepared}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", nargs="?")
    parser.add_argument("workdir", nargs="?")
    parser.add_argument("turns", nargs="?")
    parser.add_argument("--sandbox", default="danger-full-access")
    parser.add_argument("--token")
    parser.add_argument("--environments")
    parser.add_argument("--config")
    parser.add_argument("--before")
    parser.add_argument("--timeout", type=float, default=90)
    parser.add_argument("--install", action="store_true", help="install the CLI and do nothing else")
    parser.add_argument("--as-cli", nargs=argparse.REMAINDER, metavar="TURNS ARG",
                        help="run the CLI with these arguments in this home, with the scripted model")
    a = parser.parse_args()
    if a.as_cli:
        sys.exit(stand_in(json.loads(open(a.as_cli[0]).read()), a.as_cli[1:]))
    if a.install:
        print(cli())
        return
    if a.turns is None:
        parser.error("URL, WORKDIR and TURNS are needed")
    read = lambda path: path and open(path).read()
    print(json.dumps(drive(a.url, a.workdir, json.loads(read(a.turns)), a.sandbox, a.token, a.timeout,
                           read(a.environments), read(a.config), json.loads(read(a.before) or "[]")), indent=1))


if __name__ == "__main__":
    main()
