#!/usr/bin/env python3
"""Writes deploy/k8s from what the charts render, so that plain manifests and charts are one thing.

    kustomize-sync.py [--to DIR]     needs helm on PATH

The base is the chart's render with nothing but an image; each overlay patches in what another values file changes, as
JSON patches of whole pods, so that a reader sees the pod that results. What belongs to helm alone is left out:
its labels, the checksums (kustomize hashes the ConfigMap's name itself only where it makes the ConfigMap), hooks.
"""

import argparse
import copy
import pathlib
import subprocess

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[1]
HELM = ROOT / "deploy" / "helm"
NAME = "sandbox-sidecar"
HEAD = "# Written by scripts/kustomize-sync.py from the charts (make k8s). Change those.\n"

IMAGE = {"image": {"repository": NAME}}
OVERLAYS = {
    "agent": {"agent": {"image": "agent:latest"}},
    "byo-image": {"tools": {"image": "tools:latest"}},
}


class Dumper(yaml.SafeDumper):
    """Texts of several lines as blocks; no anchors."""

    def ignore_aliases(self, data):
        return True


def text(dumper, data):
    return dumper.represent_scalar("tag:yaml.org,2002:str", data, style="|" if "\n" in data else None)


Dumper.add_representer(str, text)


def dump(value):
    return yaml.dump(value, Dumper=Dumper, sort_keys=False, width=120)


def render(chart, values, release=NAME):
    """The chart's objects, without what is helm's."""
    done = subprocess.run(["helm", "template", release, HELM / chart, "--namespace", "default", "--values", "-"],
                          input=yaml.safe_dump(values), capture_output=True, text=True, check=True)
    docs = [doc for doc in yaml.safe_load_all(done.stdout) if doc]
    return [plain(doc) for doc in docs if "helm.sh/hook" not in doc["metadata"].get("annotations", {})]


def plain(doc):
    doc = copy.deepcopy(doc)
    doc["metadata"].pop("namespace", None)
    metadatas = [doc["metadata"]]
    if doc["kind"] == "StatefulSet":
        metadatas.append(doc["spec"]["template"]["metadata"])
    for metadata in metadatas:
        for key in ("helm.sh/chart", "app.kubernetes.io/managed-by"):
            metadata["labels"].pop(key, None)
        metadata.get("annotations", {}).pop("checksum/config", None)
    return doc


def by_name(docs):
    return {(doc["kind"], doc["metadata"]["name"]): doc for doc in docs}


def file_name(doc):
    return doc["kind"].lower() + ".yaml"


def patches(base, wanted):
    """JSON patches, by object, that make the one of the other; pods are replaced whole."""
    assert by_name(base).keys() == by_name(wanted).keys(), "an overlay adds no object to the base"
    for key, doc in by_name(wanted).items():
        old = by_name(base)[key]
        if doc == old:
            continue
        operations = []
        if doc["kind"] == "StatefulSet":
            spec = ("spec", "template", "spec")
            for path in [("spec", "template", "metadata", "annotations"), spec]:
                was, now = old, doc
                for part in path:
                    was, now = was[part], now[part]
                if was != now:
                    operations.append({"op": "replace", "path": "/" + "/".join(path), "value": now})
        else:
            for part in doc.keys() - {"metadata"}:
                if doc[part] != old[part]:
                    operations.append({"op": "replace", "path": f"/{part}", "value": doc[part]})
        yield doc, operations


def kustomization(**fields):
    return {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", **fields}


def agent_sandbox(docs):
    """The objects of kubernetes-sigs/agent-sandbox over the same pod: one Sandbox, and a template with a warm pool."""
    objects = {doc["kind"]: doc for doc in docs}
    template = objects["StatefulSet"]["spec"]["template"]
    policy = objects["NetworkPolicy"]["spec"]
    metadata = {"labels": objects["StatefulSet"]["metadata"]["labels"]}
    pod = {"podTemplate": {"metadata": template["metadata"], "spec": template["spec"]}}
    return [
        objects["ConfigMap"],
        {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": NAME, **metadata},
         "spec": {**pod, "service": True}},
        {"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": "SandboxTemplate",
         "metadata": {"name": NAME, **metadata},
         "spec": {**pod, "networkPolicyManagement": "Managed",
                  "networkPolicy": {"ingress": policy["ingress"], "egress": policy["egress"]}}},
        {"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": "SandboxWarmPool",
         "metadata": {"name": NAME, **metadata},
         "spec": {"replicas": 3, "sandboxTemplateRef": {"name": NAME}, "updateStrategy": {"type": "OnReplenish"}}},
        objects["NetworkPolicy"],
    ]


def tree():
    """path → text of every file."""
    files = {}

    def put(folder, docs, **more):
        for doc in docs:
            files[f"{folder}/{file_name(doc)}"] = doc
        files[f"{folder}/kustomization.yaml"] = kustomization(resources=[file_name(doc) for doc in docs], **more)

    base = render(NAME, IMAGE)
    put("base", base)
    for overlay, values in OVERLAYS.items():
        folder = f"overlays/{overlay}"
        listed = []
        for doc, operations in patches(base, render(NAME, {**IMAGE, **values})):
            files[f"{folder}/{file_name(doc)}"] = operations
            listed.append({"path": file_name(doc), "target": {"kind": doc["kind"], "name": doc["metadata"]["name"]}})
        files[f"{folder}/kustomization.yaml"] = kustomization(resources=["../../base"], patches=listed)
    monitoring = render("sandbox-sidecar-monitoring", {}, "sandbox-monitoring")
    boards = [doc for doc in monitoring if doc["kind"] == "ConfigMap"]
    rest = [doc for doc in monitoring if doc["kind"] != "ConfigMap"]
    put("overlays/monitoring", rest)
    for doc in boards:
        name = doc["metadata"]["name"] + ".yaml"
        files[f"overlays/monitoring/{name}"] = doc
        files["overlays/monitoring/kustomization.yaml"]["resources"].append(name)
    put("overlays/agent-sandbox", agent_sandbox(base))
    return {path: HEAD + dump(value) for path, value in files.items()}


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--to", type=pathlib.Path, default=ROOT / "deploy" / "k8s")
    target = arguments.parse_args().to
    for path, content in tree().items():
        file = target / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)


if __name__ == "__main__":
    main()
