"""What the tests know of the charts: where they are, how they are rendered, and how a value is changed.

Rendering is helm's own (`helm template`); nothing here imitates it.
"""

import copy
import os
import pathlib
import subprocess
import tempfile

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
HELM_DIR = ROOT / "deploy" / "helm"
WORKSPACE = HELM_DIR / "sandbox-sidecar"
MONITORING = HELM_DIR / "sandbox-sidecar-monitoring"
CHARTS = [WORKSPACE, MONITORING]

# scripts/setup.sh puts helm and kubectl here, and this on PATH.
BIN = ROOT / "target" / "deploy" / "bin"
ENV = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "HELM_NO_PLUGINS": "1"}

RELEASE, NAMESPACE = "w", "team"


class HelmError(Exception):
    """What helm said on its way out."""


def run(*command, stdin=None):
    """The program's stdout; its stderr as an error where it fails."""
    done = subprocess.run([str(word) for word in command], env=ENV, input=stdin, capture_output=True, text=True)
    if done.returncode:
        raise HelmError(done.stderr + done.stdout)
    return done.stdout


def ci_files(chart):
    files = sorted((chart / "ci").glob("*-values.yaml"))
    assert files, f"{chart} has no ci/*-values.yaml"
    return files


def load(path):
    return yaml.safe_load(path.read_text()) or {}


def defaults(chart):
    return load(chart / "values.yaml")


def merged(chart, values):
    """What helm works with: the defaults under the values."""

    def merge(base, over):
        out = dict(base)
        for key, value in over.items():
            both = isinstance(value, dict) and isinstance(base.get(key), dict)
            out[key] = merge(base[key], value) if both else value
        return out

    return merge(defaults(chart), values)


def template(chart, values, release=RELEASE, text=False):
    """The rendered objects. `values` go on top of the defaults; helm validates them by the schema."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump(values, file)
        file.flush()
        out = run("helm", "template", release, chart, "--namespace", NAMESPACE, "--values", file.name)
    return out if text else [doc for doc in yaml.safe_load_all(out) if doc]


def with_value(values, path, value):
    """A copy in which the key at `path` is `value`."""
    out = copy.deepcopy(values)
    place = out
    for key in path[:-1]:
        place = place.setdefault(key, {})
    place[path[-1]] = value
    return out


def leaves(values, path=()):
    """Each key that stands for itself, with its default: what is no map, and maps that are empty."""
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key), value


def kind(docs, name):
    return [doc for doc in docs if doc["kind"] == name]


def pods(docs):
    """Each pod that comes out of the objects: its metadata, its spec, and the object it is from."""
    for doc in docs:
        if doc["kind"] == "Pod":
            yield doc["metadata"], doc["spec"], doc
        elif "template" in doc.get("spec", {}):
            template = doc["spec"]["template"]
            yield template["metadata"], template["spec"], doc


def containers(spec):
    return [*spec.get("initContainers", []), *spec["containers"]]


def workspace_pod(docs):
    [(metadata, spec, _)] = [pod for pod in pods(docs) if pod[2]["kind"] == "StatefulSet"]
    return metadata, spec


def container(docs, name):
    [found] = [c for c in containers(workspace_pod(docs)[1]) if c["name"] == name]
    return found
