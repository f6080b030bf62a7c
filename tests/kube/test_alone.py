"""The default topology: a workspace's pod without an agent, reached from outside by `kubectl exec`, as docs/start-kubernetes.md has
it. Its workspace is a claim, into which a repository is cloned.
"""

import contextlib
import functools
import http.server
import json
import subprocess
import threading

import pytest

import podman as p
from conftest import IMAGE, WORKSPACE, start
from kubectl import kubectl_in
from page import CHECKOUT, Container, Reader

PAGE = p.ROOT / "docs" / "start-kubernetes.md"
RELEASE = "workspace"
CLAIM = f"{RELEASE}-sandbox-sidecar"
POD = f"default/{CLAIM}-0/sidecar"
TOKEN = "/run/sandbox-sidecar/token"
GROUP = 65532
PODS = "podman-default-kube-network"


def git(folder, *words):
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main", *words], cwd=folder,
                   check=True, capture_output=True, timeout=60)


@pytest.fixture(scope="module")
def repository(scratch):
    """A repository that pods can clone: its URL. git needs no more than files over HTTP."""
    folder = scratch / "repository"
    (folder / "work").mkdir(parents=True)
    git(folder / "work", "init", "-q")
    (folder / "work" / "cloned.txt").write_text("cloned\n")
    git(folder / "work", "add", "-A")
    git(folder / "work", "commit", "-qm", "one")
    git(folder, "clone", "-q", "--bare", "work", "bare.git")
    git(folder / "bare.git", "update-server-info")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder)
    # That of the pods; the first one makes it otherwise.
    p.podman("network", "create", PODS, check=False)
    [network] = json.loads(p.podman("network", "inspect", PODS).stdout)
    with http.server.ThreadingHTTPServer(("0.0.0.0", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://{network['subnets'][0]['gateway']}:{server.server_port}/bare.git"
        server.shutdown()


@pytest.fixture(scope="module")
def claim(scratch):
    folder = scratch / "claim"
    p.host_dir(folder, GROUP)
    return folder


@contextlib.contextmanager
def played(scratch, claim, repository):
    values = {"image": IMAGE, "workspace": {"type": "persistentVolumeClaim", "git": {"url": repository}}}
    scratch.mkdir()
    pod = start(RELEASE, values, scratch, claims={CLAIM: claim})
    try:
        yield pod
    finally:
        pod.remove()


@pytest.fixture(scope="module")
def alone(scratch, claim, repository):
    with played(scratch / "alone", claim, repository) as pod:
        yield pod


@pytest.fixture(scope="module")
def outside(scratch, alone):
    """Somebody with agent-client, kubectl and a project, and with nothing else of the pod."""
    kubectl, flags = kubectl_in(scratch / "outside", {POD: alone.container("sidecar")}, p.ENV)
    with (contextlib.closing(kubectl),
          Container("kube-outside", WORKSPACE, "infinity", flags=["--entrypoint", "sleep", *flags]) as container):
        reader = Reader(container)
        reader.write(f"{CHECKOUT}/Makefile", "test:\n\t@cat given.txt cloned.txt; pwd; id -un\n")
        reader.write(f"{CHECKOUT}/given.txt", "pushed\n")
        yield reader


def test_the_pod_is_alone(alone):
    assert [c["name"] for c in p.charts.workspace_pod(alone.docs)[1]["containers"]] == ["sidecar"]


def test_the_page(outside, alone):
    """What it says works, in its order: by flags, and then by the file that it has the reader write."""
    said = []
    outside.follow(PAGE.read_text(), after=lambda _, done: said.append(done.stdout))
    [by_flags] = said
    assert "pod default/" in by_flags and by_flags.endswith("pushed\ncloned\n/workspace\nsandbox\n"), by_flags
    assert alone.exec("sidecar", "cat", "/workspace/given.txt").stdout == "pushed\n"
    again = outside.script("agent-client exec -- make test")
    assert again.stdout == "pushed\ncloned\n/workspace\nsandbox\n"
    status = json.loads(outside.script("agent-client status --json").stdout)
    assert status["server"] == f"pod {POD}"


def test_exit_codes_terminals_and_what_comes_back(outside):
    script = f"""
        cd ~ && export AGENT_CLIENT_KUBE={POD}
        agent-client exec -- sh -c 'test -t 1; echo $?; exit 7' || echo code $?
        agent-client exec -t -- sh -c 'test -t 0 && test -t 1 && echo a terminal'
        agent-client exec -- sh -c 'echo made there > made.txt'
        mkdir copy && cd copy && agent-client pull && cat made.txt cloned.txt"""
    lines = outside.script(script).stdout.replace("\r", "").splitlines()
    assert lines[:3] == ["1", "code 7", "a terminal"] and lines[-2:] == ["made there", "cloned"], lines


def test_what_is_the_sidecars_is_not_the_commands(outside, alone):
    assert len(alone.exec("sidecar", "cat", TOKEN).stdout.strip()) == 64, "who is in the container may read it"
    done = outside.script(f"agent-client exec --kube {POD} -- cat {TOKEN}", check=False)
    assert done.returncode and "Permission denied" in done.stderr, done


def test_the_claim_keeps_what_was_done(outside, alone, claim, scratch, repository):
    """A pod that comes anew finds its workspace, and clones nothing over it."""
    assert "left as it is" not in alone.logs("clone")
    outside.script(f"agent-client exec --kube {POD} -- sh -c 'echo mine > cloned.txt && git add -A && git -c user.name=a -c user.email=a@b commit -qm two'")
    alone.remove()
    with played(scratch / "again", claim, repository) as pod:
        assert "left as it is" in pod.logs("clone")
        with pod.connect() as session:
            assert session.run("log", "git", "log", "--format=%s") == (0, "two\none\n")
            assert session.run("cat", "cat", "cloned.txt") == (0, "mine\n")
