"""The pages of docs/agents/, each followed in a container of its own: an empty home, uid 65532, no network but loopback.

Where a page assumes a sidecar, that is a second container in the same network namespace, and nothing else is shared: what a
command of the sandbox wrote is there, and not with the reader. Programs that a page assumes to be there already, such as the
CLIs, are mounted read-only from where scripts/setup.sh installs them on the host, as the container has no way to a registry.
What a page tells the reader to install is installed, by the page's command, from files that were fetched before.
"""

import contextlib
import json
import os
import pathlib
import re
import secrets
import subprocess
import threading

import pytest

import podman as p
from conftest import WORKSPACE
from http_get import until
from kubectl import kubectl_in
from page import CHECKOUT, HOME, Container, Reader

PAGES = p.ROOT / "docs" / "agents"
RUST = "localhost/rust:1.95-bookworm"
CACHE = pathlib.Path.home() / ".cache"
URL = "ws://127.0.0.1:8790"
NOTE = "/workspace/note.txt"
GIVE_UP = 120


def installed(variable, name):
    """Where scripts/setup.sh put something."""
    folder = pathlib.Path(os.environ.get(variable, CACHE / name))
    assert folder.is_dir(), f"scripts/setup.sh {name} makes {folder}"
    return folder


def page(name):
    return (PAGES / name).read_text()


class Desk:
    """A reader, and the sidecar that the page assumes."""

    def __init__(self, reader, sidecar, kubectl, turns):
        self.reader, self.sidecar, self.kubectl, self.turns = reader, sidecar, kubectl, turns

    def script(self, text, check=True):
        return self.reader.script(text, check)

    def plan(self, *turns):
        """What the scripted model will do: [tool, arguments] each."""
        self.turns.write_text(json.dumps(turns))

    def forget_note(self):
        self.sidecar.exec("rm", "-f", NOTE)

    def note(self):
        """What a command in the sandbox wrote. It is not at the reader's, wherever that could be."""
        here = self.reader.container
        for place in (f"{HOME}/project", "/workspace", CHECKOUT, HOME):
            assert here.holds(f"{place}/note.txt") is None, f"{place} is the reader's"
        return self.sidecar.holds(NOTE)


@contextlib.contextmanager
def desk(scratch, name, flags=()):
    """What every page assumes: a sidecar, its token in the home, a project there, and the programs on the PATH."""
    folder = scratch / name
    # What is mounted from the host for the reader, who sees nothing of the rest.
    reader_has = folder / "reader-has"
    name = f"agents-{name}"
    kubectl, has = kubectl_in(reader_has, {"team/workspace-0/sidecar": f"{name}-sidecar"}, p.ENV)
    token = secrets.token_hex(32)
    (folder / "token").write_text(token)
    os.chown(folder / "token", 65532, 65532)
    (folder / "token").chmod(0o600)
    for driver, program in ("stock_cli", "codex"), ("claude_code", "claude"):
        executable(reader_has / "bin" / program, "#!/bin/sh\nexec python3 "
                   f"{CHECKOUT}/tests/e2e/{driver}.py --as-cli /opt/reader/turns.json \"$@\"\n")
    with (contextlib.closing(kubectl),
          Container(name, WORKSPACE, "infinity",
                    flags=["--entrypoint", "sleep", *has, *flags, *volumes(folder / "reader", "/workspace")]) as here,
          Container(f"{name}-sidecar", WORKSPACE, "serve", "--listen", URL, "--listen", "unix:///run/sandbox-sidecar/api.sock",
                    "--workspace-root", "/workspace", "--token-file", "/token",
                    flags=["--network", f"container:{name}", "--volume", f"{folder}/token:/token:ro",
                           *volumes(folder / "sidecar", "/workspace", "/run/sandbox-sidecar")]) as sidecar):
        reader = Reader(here, {"the token": token})
        reader.check_out()
        reader.write("~/token", token)
        here.exec("mkdir", f"{HOME}/project")
        until("the sidecar's start", lambda: p.podman("logs", sidecar.name).stdout)
        yield Desk(reader, sidecar, kubectl, reader_has / "turns.json")


def volumes(folder, *paths):
    """Empty directories, as emptyDir volumes are. In place of a tmpfs, which takes the mode that the image's directory has."""
    flags = []
    for path in paths:
        source = p.host_dir(folder / path.strip("/").replace("/", "-"), 65532)["path"]
        flags += ["--volume", f"{source}:{path}"]
    return flags


def executable(file, text):
    file.write_text(text)
    file.chmod(0o755)


# --- Agents that a scripted model drives.


@contextlib.contextmanager
def with_codex(scratch, name):
    """The CLI, and a place that its driver may lock."""
    modules = installed("STOCK_CLI_DIR", "stock-cli") / "node_modules"
    flags = ["--tmpfs", "/opt/stock-cli:rw,mode=0777", "--volume", f"{modules}:/opt/stock-cli/node_modules:ro",
             "--env", "STOCK_CLI_DIR=/opt/stock-cli"]
    with desk(scratch, name, flags) as at:
        yield at


def follow_with_notes(at, name, tool):
    """Follows a page on which the CLI is asked for a note, by a model that calls `tool` for it; how often it was asked."""
    at.plan([tool, {"cmd": "echo from the model > note.txt", "yield_time_ms": 30_000}])
    notes = []

    def before(script):
        # One that is there already would prove nothing.
        if "Write a note." in script:
            at.forget_note()

    def after(script, _):
        if "Write a note." in script:
            assert at.note() == "from the model\n", script
            notes.append(script)

    at.reader.follow(page(name), before, after)
    return notes


def refused(at, script):
    """A run like one of the page's, which wrote the note, and now must not."""
    at.forget_note()
    done = at.script(script)
    assert at.note() is None
    [output] = json.loads(done.stderr.splitlines()[-1])
    assert "note.txt: Permission denied" in output, output


def test_the_stock_cli_by_remote_environment(scratch):
    with with_codex(scratch, "stock-cli") as at:
        [_, _, directly] = follow_with_notes(at, "stock-cli.md", "exec_command")
        assert at.kubectl.asked == [["exec", "-i", "-n", "team", "workspace-0", "-c", "sidecar", "--", "sandbox-sidecar",
                                     "connect", "unix:/run/sandbox-sidecar/api.sock"]]
        # "With `-s workspace-write` or `-s read-only` the CLI's permissions tighten it further."
        refused(at, directly.replace("danger-full-access", "read-only"))


def test_the_stock_cli_by_mcp(scratch):
    with with_codex(scratch, "stock-cli-mcp") as at:
        notes = follow_with_notes(at, "stock-cli-mcp.md", "mcp__sandbox/exec_command")
        assert len(notes) == 2
        # "With `-s read-only`, … nothing can be written by these tools either."
        refused(at, notes[-1].replace("workspace-write", "read-only"))
        # The page's last sentence.
        assert "installed, enabled" in at.script("codex plugin list").stdout
        assert "not installed" in at.script("codex plugin remove sandbox-sidecar@sandbox-sidecar; codex plugin list").stdout


# What Claude Code has of its own that runs, reads or writes on the reader's machine.
LOCAL = {"Bash", "Read", "Edit", "Write", "NotebookEdit", "EnterWorktree"}


def test_claude_code(scratch):
    modules = installed("CLAUDE_CODE_DIR", "claude-code") / "node_modules"
    flags = ["--tmpfs", "/opt/claude-code:rw,mode=0777", "--volume", f"{modules}:/opt/claude-code/node_modules:ro",
             "--env", "CLAUDE_CODE_DIR=/opt/claude-code"]
    with desk(scratch, "claude-code", flags) as at:
        seen = []

        def said(done):
            return json.loads(done.stderr.splitlines()[-1])

        def before(script):
            at.forget_note()
            if "hasTrustDialogAccepted" in script:
                # What the page says of a folder that nobody trusts.
                assert "Pending approval" in at.script("cd ~/project; claude mcp get sandbox").stdout
                [(refused, reason), _] = said(at.script("cd ~/project; claude -p 'Write a note.'"))["outputs"]
                assert refused and "permission" in reason and at.note() is None, reason

        def after(script, done):
            if "Write a note." in script:
                assert at.note() == "from the model\n", script
                seen.append(said(done))

        local = ["Bash", {"command": "echo from the model > local.txt", "description": "a note"}]
        at.plan(["mcp__sandbox__exec_command", {"cmd": "echo from the model > note.txt", "yield_time_ms": 30_000}], local)
        at.reader.follow(page("claude-code.md"), before, after)
        assert len(seen) == 2, "by the flag, and by trust"
        for run in seen:
            (failed, text), (denied, reason) = run["outputs"]
            assert not failed and json.loads(text)["exit_code"] == 0, text
            assert denied and "No such tool available: Bash" in reason, reason
            assert not LOCAL & set(run["tools"]), run
            assert "mcp__sandbox__exec_command" in run["tools"]
        assert at.reader.container.holds(f"{HOME}/project/local.txt") is None

        # Without the page's second file they are there, and the same call is done on the reader's machine.
        at.plan(local)
        done = at.script("cd ~/project; rm .claude/settings.json; claude -p 'Write a note.' --allowedTools Bash")
        without = said(done)
        assert set(without["tools"]) >= LOCAL, without
        assert [failed for failed, _ in without["outputs"]] == [False], without
        assert at.reader.container.holds(f"{HOME}/project/local.txt") == "from the model\n"
        # The command of which the page says that it writes the first file.
        at.script(f"""mkdir ~/other; cd ~/other
            claude mcp add --scope project sandbox -- agent-client mcp --sidecar-url {URL} --token-file ~/token""")
        written, shown = (json.loads(at.reader.container.holds(f"{HOME}/{project}/.mcp.json"))["mcpServers"]["sandbox"]
                          for project in ("other", "project"))
        assert {key: written[key] for key in shown} == shown
        # And without that file there is no sandbox.
        done = at.script("cd ~/project; rm .mcp.json; claude mcp get sandbox", check=False)
        assert done.returncode != 0, done.stdout


# --- Clients of MCP, by the files that the page has for them.


class Mcp:
    """A client of MCP, over the stdin and stdout of a server."""

    def __init__(self, command):
        self.program = subprocess.Popen(command, env=p.ENV, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.sent = 0
        self.call("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "test", "version": "0"})
        self.write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.program.stdin.close()
        try:
            self.program.wait(GIVE_UP)
        finally:
            self.program.kill()

    def write(self, message):
        self.program.stdin.write(json.dumps(message) + "\n")
        self.program.stdin.flush()

    def call(self, method, **params):
        self.sent += 1
        self.write({"jsonrpc": "2.0", "id": self.sent, "method": method, "params": params})
        timer = threading.Timer(GIVE_UP, self.program.kill)
        timer.start()
        try:
            for line in self.program.stdout:
                message = json.loads(line)
                if message.get("id") == self.sent:
                    return message["result"]
        finally:
            timer.cancel()
        raise EOFError("the server ended")

    def tool(self, name, **arguments):
        return self.call("tools/call", name=name, arguments=arguments)


def test_other_mcp_clients(scratch):
    """No client of the three runs without a display. Their servers are started as they would: by each file, in the project."""
    with desk(scratch, "mcp-clients") as at:
        at.reader.follow(page("mcp-clients.md"))
        files = {".cursor/mcp.json": "mcpServers", ".vscode/mcp.json": "servers", ".zed/settings.json": "context_servers"}
        for file, key in files.items():
            [entry] = json.loads(at.reader.container.holds(f"{HOME}/project/{file}"))[key].values()
            command = ["podman", "exec", "--interactive", "--workdir", f"{HOME}/project", at.reader.container.name,
                       entry["command"], *entry["args"]]
            at.forget_note()
            with Mcp(command) as mcp:
                answer = mcp.tool("exec_command", cmd="echo from the client > note.txt", yield_time_ms=30_000)
                assert answer["structuredContent"]["exit_code"] == 0, answer
                assert at.note() == "from the client\n", file
            # "`--profile readOnly` makes a server that can look and run, and change nothing."
            with Mcp([*command, "--profile", "readOnly"]) as mcp:
                answer = mcp.tool("exec_command", cmd="cat note.txt; echo more >> note.txt", yield_time_ms=30_000)
                content = answer["structuredContent"]
                assert content["exit_code"] != 0 and content["output"].startswith("from the client\n"), answer
                assert at.note() == "from the client\n", file


def test_the_file_of_mcp_servers_is_one_that_a_client_reads(scratch):
    """The MCP Inspector reads `mcpServers`, as the clients that the page names do."""
    modules = installed("MCP_SUITES_DIR", "mcp-suites") / "node_modules"
    with desk(scratch, "inspector", ["--volume", f"{modules}:/opt/node_modules:ro"]) as at:
        at.reader.follow(page("mcp-clients.md"))
        at.script("""/opt/node_modules/node/bin/node /opt/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js \\
            --cli --config ~/project/.cursor/mcp.json --server sandbox --method tools/call --tool-name exec_command \\
            --tool-args-json '{"cmd": "echo from the client > note.txt"}'""")
        assert at.note() == "from the client\n"


# --- Agents of one's own.


def test_a_plain_shell_tool(scratch):
    with desk(scratch, "shell-tool") as at:
        at.reader.follow(page("shell-tool.md"))
        assert at.note() == "from the sandbox\n"
        # "Variables of the agent's environment are not sent, but those under `[env]` of the file."
        at.reader.write("~/.config/agent-client/config.toml", '[env]\nGIVEN = "given"\n', append=True)
        done = at.script("cd ~/project; SECRET=s agent-client sh -c 'echo \"$GIVEN,$SECRET\"'")
        assert done.stdout == "given,\n"
        # "What it leaves in the background is ended then."
        at.script("cd ~/project; agent-client sh -c 'sleep 1000 >&- 2>&- & echo $! > pid'")
        at.script("cd ~/project; agent-client sh -c 'test -s pid && ! kill -0 $(cat pid)'")


def test_a_python_agent(scratch):
    wheels = installed("WHEELS_DIR", "wheels")
    flags = ["--volume", f"{wheels}:/opt/wheels:ro", "--env", "PIP_NO_INDEX=1", "--env", "PIP_FIND_LINKS=/opt/wheels"]
    with desk(scratch, "python", flags) as at:
        done = at.script("python3 -c 'import websocket'", check=False)
        assert done.returncode, "the page installs it"
        at.reader.follow(page("python.md"))
        assert at.note() == "note\n"


def test_a_rust_agent(scratch):
    """In an image with the toolchain. It needs no sidecar, as it embeds one; its crates are those that cargo fetched before."""
    target = p.ROOT / "target" / "agents"
    target.mkdir(parents=True, exist_ok=True)
    os.chown(target, 65532, 65532)
    fetched = pathlib.Path(os.environ.get("CARGO_HOME", pathlib.Path.home() / ".cargo")) / "registry"
    # As with the image's own build: what was built stays for the next run, and is optimised less.
    env = {"CARGO_HOME": "/opt/cargo", "CARGO_NET_OFFLINE": "true", "CARGO_TARGET_DIR": "/opt/target",
           "CARGO_PROFILE_DEV_OPT_LEVEL": "0", "CARGO_PROFILE_DEV_DEBUG": "0"}
    flags = ["--entrypoint", "sleep", "--volume", f"{target}:/opt/target", *volumes(scratch / "rust", "/opt/cargo"),
             *(f"--env={key}={value}" for key, value in env.items())]
    # Without the sources, which cargo unpacked for the host's user alone.
    for part in "cache", "index":
        p.host_dir(scratch / "rust/opt-cargo/registry" / part, 65532)
        flags += ["--volume", f"{fetched}/{part}:/opt/cargo/registry/{part}:ro"]
    (scratch / "rust/opt-cargo/registry").chmod(0o777)
    with Container("agents-rust", RUST, "infinity", flags=flags) as container:
        reader = Reader(container, patience=3600)
        reader.check_out()
        reader.follow(page("rust.md"))
        assert container.holds(f"{CHECKOUT}/note.txt") == "changed\n"


def test_every_page_is_followed():
    source = pathlib.Path(__file__).read_text()
    for file in PAGES.glob("*.md"):
        assert re.search(f'(page|follow_with_notes)\\(.*"{file.name}"', source), file.name
