"""What is in the images."""

import json
import subprocess
import tomllib

import podman as p
from conftest import STATIC, WORKSPACE


def test_the_static_image_is_the_two_programs():
    container = p.podman("create", STATIC).stdout.strip()
    try:
        tar = subprocess.run(["podman", "export", container], env=p.ENV, capture_output=True, check=True).stdout
    finally:
        p.podman("rm", container)
    names = subprocess.run(["tar", "-t"], input=tar, capture_output=True, check=True).stdout.decode().split()
    # What podman itself puts into every container.
    own = ("dev/", "etc/", "proc/", "run/", "sys/")
    assert {name for name in names if not name.endswith("/") and not name.startswith(own)} == {
        "usr/local/bin/sandbox-sidecar", "usr/local/bin/agent-client"}


def test_it_tells_its_crates():
    """A scanner finds them in the programs: `make sbom` does."""
    subprocess.run([p.ROOT / "scripts/sbom.sh", STATIC], env=p.ENV, check=True, capture_output=True)
    file = p.ROOT / "target/sbom" / f"{STATIC.rsplit('/', 1)[1].replace(':', '-')}.cdx.json"
    found = {(c["name"], c["version"]) for c in json.loads(file.read_text())["components"] if c["type"] == "library"}
    locked = {(c["name"], c["version"]) for c in tomllib.loads((p.ROOT / "Cargo.lock").read_text())["package"]}
    assert found <= locked
    assert {"tokio", "landlock", "seccompiler", "sidecar-sandbox"} <= {name for name, _ in found}


def test_neither_runs_as_root_and_both_have_labels():
    for image in (STATIC, WORKSPACE):
        [found] = json.loads(p.podman("image", "inspect", image).stdout)
        assert found["Config"]["User"] == "65532:65532"
        labels = found["Config"]["Labels"]
        assert labels["org.opencontainers.image.revision"] not in ("", "unknown")
        assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"


def test_the_workspace_image_has_its_tools():
    tools = "bash git curl rg python3 node cc make tmux sandbox-sidecar agent-client"
    script = f"for tool in {tools}; do command -v $tool >/dev/null || echo $tool; done; python3 -m venv /tmp/v || echo venv"
    for user in ("65532:65532", "4242:0"):
        done = p.podman("run", "--rm", "--network", "none", "--user", user, "--entrypoint", "/bin/sh", WORKSPACE, "-c", script)
        assert done.stdout == "", user


def test_any_uid_of_group_0_may_write_where_the_image_says():
    """Without volumes. A uid of another group may not: it is the group's rights that let the others."""
    touch = 'for place in /workspace "$HOME" /run/sandbox-sidecar; do touch "$place/new" 2>/dev/null && echo "$place"; done; true'
    for user, expected in ("65532:65532", 3), ("4242:0", 3), ("4242:4242", 0):
        done = p.podman("run", "--rm", "--network", "none", "--user", user, "--entrypoint", "/bin/sh", WORKSPACE, "-c", touch)
        assert len(done.stdout.split()) == expected, (user, done.stdout)
    # The other image has no shell to look from.
    container = p.podman("create", STATIC).stdout.strip()
    try:
        tar = subprocess.run(["podman", "export", container], env=p.ENV, capture_output=True, check=True).stdout
    finally:
        p.podman("rm", container)
    listed = subprocess.run(["tar", "-tv", "--numeric-owner"], input=tar, capture_output=True, check=True).stdout.decode()
    modes = {line.split()[-1]: line.split()[:2] for line in listed.splitlines()}
    for place in "workspace/", "home/sandbox/", "run/sandbox-sidecar/":
        assert modes[place] == ["drwxrwsr-x", "65532/0"], (place, modes[place])
    assert modes["tmp/"][0] == "drwxrwxrwt"
