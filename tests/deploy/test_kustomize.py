"""deploy/k8s is what the charts render, kustomize builds it, and the API server would take it."""

import subprocess
import sys

import pytest
import yaml

import charts
from validation import CUSTOM, KUBERNETES, Refused, validate

K8S = charts.ROOT / "deploy" / "k8s"
SCRIPT = charts.ROOT / "scripts" / "kustomize-sync.py"
sys.path.insert(0, str(SCRIPT.parent))
sync = __import__("kustomize-sync")

FOLDERS = ["base", *sorted(f"overlays/{path.name}" for path in (K8S / "overlays").iterdir())]


def build(folder):
    return [doc for doc in yaml.safe_load_all(charts.run("kubectl", "kustomize", K8S / folder)) if doc]


@pytest.fixture(autouse=True)
def helm_on_path(monkeypatch):
    monkeypatch.setenv("PATH", charts.ENV["PATH"])


def test_the_files_are_those_that_the_charts_make(tmp_path):
    subprocess.run([sys.executable, SCRIPT, "--to", tmp_path], check=True)

    def files(root):
        return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*.yaml")}

    assert files(K8S) == files(tmp_path), "run make k8s"


@pytest.mark.parametrize(("folder", "values"), [("base", {}), *((f"overlays/{k}", v) for k, v in sync.OVERLAYS.items())])
def test_a_build_is_the_charts_render(folder, values):
    assert sync.by_name(build(folder)) == sync.by_name(sync.render(sync.NAME, {**sync.IMAGE, **values}))


def test_monitoring_is_the_charts_render():
    wanted = sync.render("sandbox-sidecar-monitoring", {}, "sandbox-monitoring")
    assert sync.by_name(build("overlays/monitoring")) == sync.by_name(wanted)


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize("folder", FOLDERS)
def test_a_build_is_valid(folder, version):
    docs = build(folder)
    assert docs
    for doc in docs:
        validate(doc, version)


WRONG = {
    "PodMonitor": [("spec", "podMetricsEndpoints", 0, "prt"), ("spec", "podMetricsEndpoints", 0, "interval")],
    "PrometheusRule": [("spec", "groups", 0, "rules", 0, "exp"), ("spec", "groups", 1, "rules", 0, "for")],
    "Sandbox": [("spec", "podTemplat"), ("spec", "podTemplate", "spec", "hostNetwrk"), ("spec", "podTemplate", "metadata", "name")],
    "SandboxTemplate": [("spec", "networkPolicy", "policyTypes"), ("spec", "networkPolicy", "ingress", 0, "frm")],
    "SandboxWarmPool": [("spec", "sandboxTemplateRef", "namespace"), ("spec", "replicas")],
}


@pytest.mark.parametrize(("kind", "path"), [(kind, path) for kind, paths in WRONG.items() for path in paths],
                         ids=lambda value: ".".join(map(str, value)) if isinstance(value, tuple) else value)
def test_a_wrong_field_of_a_custom_resource_is_named(kind, path):
    assert WRONG.keys() == CUSTOM.keys() - {"$defs"}
    [doc] = [doc for folder in ("overlays/monitoring", "overlays/agent-sandbox") for doc in build(folder) if doc["kind"] == kind]
    validate(doc, KUBERNETES[-1])
    place = doc
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = "wrong"
    with pytest.raises(Refused, match=path[-1] if path[-1] not in ("for", "interval", "replicas") else "'wrong'"):
        validate(doc, KUBERNETES[-1])


def test_agent_sandbox_runs_the_pod_of_the_base():
    base = sync.by_name(build("base"))
    docs = {doc["kind"]: doc for doc in build("overlays/agent-sandbox")}
    pod = base["StatefulSet", "sandbox-sidecar"]["spec"]["template"]
    policy = base["NetworkPolicy", "sandbox-sidecar"]["spec"]
    for name in ("Sandbox", "SandboxTemplate"):
        assert docs[name]["spec"]["podTemplate"] == pod
    assert docs["Sandbox"]["apiVersion"] == "agents.x-k8s.io/v1beta1"
    template = docs["SandboxTemplate"]
    assert template["apiVersion"] == "extensions.agents.x-k8s.io/v1beta1"
    assert template["spec"]["networkPolicy"] == {"ingress": policy["ingress"], "egress": policy["egress"]}
    assert docs["SandboxWarmPool"]["spec"]["sandboxTemplateRef"]["name"] == template["metadata"]["name"]
    # Nothing that the pod mounts is missing, and no token of it is shared between sandboxes of the pool.
    maps = {doc["metadata"]["name"] for doc in docs.values() if doc["kind"] == "ConfigMap"}
    for volume in pod["spec"]["volumes"]:
        assert "secret" not in volume
        assert "configMap" not in volume or volume["configMap"]["name"] in maps


def test_an_image_is_set_in_one_place():
    """`images:` in a kustomization of one's own reaches every container of ours."""
    for folder in ("base", "overlays/agent"):
        images = {c["image"].split(":")[0] for doc in build(folder) if doc["kind"] == "StatefulSet"
                  for c in charts.containers(doc["spec"]["template"]["spec"])}
        assert images <= {"sandbox-sidecar", "agent"}
