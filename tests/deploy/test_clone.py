"""The script of the init container that clones, run as it is rendered, against a real repository."""

import os
import subprocess

import pytest

import charts


def git(folder, *words):
    done = subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main",
                           "-c", "protocol.file.allow=always", *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def remote(tmp_path):
    folder = tmp_path / "remote repository"
    folder.mkdir()
    git(folder, "init", "-q")
    for name in ("file", ".hidden", "..odd", "a b"):
        (folder / name).write_text(name)
    (folder / "link").symlink_to("missing")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "one")
    git(folder, "branch", "old")
    git(folder, "commit", "-qm", "two", "--allow-empty")
    return folder


def clone(workspace, url, **git_values):
    values = {"image": {"repository": "x"}, "workspace": {"git": {"url": str(url), **git_values}}}
    container = charts.container(charts.template(charts.WORKSPACE, values), "clone")
    env = {entry["name"]: entry["value"] for entry in container["env"]}
    env |= {"WORKSPACE": str(workspace), "PATH": os.environ["PATH"], "HOME": str(workspace.parent)}
    [script] = container["args"]
    done = subprocess.run([*container["command"], script], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def workspace(tmp_path):
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


def test_everything_arrives(remote, workspace):
    clone(workspace, remote)
    names = {path.name for path in workspace.iterdir()}
    assert names == {".git", "file", ".hidden", "..odd", "a b", "link"}
    assert git(workspace, "status", "--porcelain") == ""
    assert git(workspace, "rev-parse", "--abbrev-ref", "HEAD") == "main"


def test_a_branch_and_a_depth(remote, workspace):
    clone(workspace, f"file://{remote}", ref="old", depth=1)
    assert git(workspace, "log", "--format=%s") == "one"
    assert git(workspace, "rev-parse", "--is-shallow-repository") == "true"


def test_a_repository_that_is_there_is_left_alone(remote, workspace):
    clone(workspace, remote)
    (workspace / "file").write_text("mine")
    assert "left as it is" in clone(workspace, remote)
    assert (workspace / "file").read_text() == "mine"


def test_a_clone_that_was_interrupted_is_done_again(remote, workspace):
    (workspace / ".clone").mkdir()
    (workspace / ".clone" / "half").write_text("x")
    (workspace / "file").write_text("hal")
    clone(workspace, remote)
    assert not (workspace / ".clone").exists()
    assert git(workspace, "status", "--porcelain") == ""


def test_a_url_is_no_option(workspace):
    with pytest.raises(AssertionError, match="--upload-pack=x"):
        clone(workspace, "--upload-pack=x")
