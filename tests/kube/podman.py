"""Podman as the kubelet of one pod: the rendered chart, and the little that must be changed for `podman kube play` 4.3.

What `transform` changes, and why. Everything else reaches podman as the chart has it.

- StatefulSet → its one Pod, named as the StatefulSet controller names it. Service, NetworkPolicy: left out; there is no
  cluster.
- A native sidecar → a plain container. Podman waits for an init container to end, whatever its restartPolicy.
- Init containers get the annotation by which podman keeps them after their end: removing them, it races with its own
  look at whether they still run. restartPolicy Never: with Always it would start them again and again; what must be
  restarted, the tests restart.
- Probes: left out. Podman makes them health checks that need a shell and a timer; the tests ask the endpoints themselves.
- Ports: left out. Podman 4.3 publishes each on the host; the pod's own address is asked instead.
- emptyDir and configMap volumes → hostPath, with the mode that the kubelet gives them (setgid, the fsGroup) and the same
  files. Podman 4.3 knows no emptyDir, and no subPath into a ConfigMap.
- The pod's runAsUser and runAsGroup → each container's.
- seccompProfile RuntimeDefault → the annotation for a profile on disk: scripts/containers/runtime-default.json, which is
  what containerd makes of RuntimeDefault for a container without capabilities.
"""

import copy
import json
import os
import pathlib
import subprocess
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "deploy"))
import charts  # noqa: E402

SETTINGS = ROOT / "scripts" / "containers"
ENV = {**os.environ, "CONTAINERS_CONF": str(SETTINGS / "containers.conf"),
       "CONTAINERS_STORAGE_CONF": str(SETTINGS / "storage.conf")}
SECCOMP = "seccomp.security.alpha.kubernetes.io/pod"
INIT_TYPE = "io.podman.annotations.init.container.type"


def podman(*words, check=True, timeout=120, **more):
    done = subprocess.run(["podman", *map(str, words)], env=ENV, capture_output=True, text=True, timeout=timeout, **more)
    if check and done.returncode:
        raise AssertionError(f"podman {' '.join(map(str, words))}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def host_dir(folder, group):
    """As the kubelet makes a volume with an fsGroup."""
    folder.mkdir(parents=True)
    os.chown(folder, 0, group)
    folder.chmod(0o2777)
    return {"path": str(folder), "type": "Directory"}


def transform(docs, folder):
    """The Pod for podman, out of the chart's objects; `folder` holds its volumes."""
    maps = {doc["metadata"]["name"]: doc["data"] for doc in charts.kind(docs, "ConfigMap")}
    metadata, spec = copy.deepcopy(charts.workspace_pod(docs))
    [stateful] = charts.kind(docs, "StatefulSet")
    context = spec.pop("securityContext")
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    group = context["fsGroup"]

    files = {}
    volumes = []
    for volume in spec["volumes"]:
        name = volume["name"]
        place = folder / name
        source = host_dir(place, group)
        if "configMap" in volume:
            for item in volume["configMap"]["items"]:
                (place / item["path"]).write_text(maps[volume["configMap"]["name"]][item["key"]])
                files[name, item["path"]] = place / item["path"]
        else:
            assert "emptyDir" in volume, volume
        volumes.append({"name": name, "hostPath": source})

    for c in charts.containers(spec):
        for key in ("restartPolicy", "startupProbe", "livenessProbe", "readinessProbe", "ports"):
            c.pop(key, None)
        c["securityContext"] |= {key: context[key] for key in ("runAsUser", "runAsGroup") if key in context}
        c["imagePullPolicy"] = "Never"
        for mount in c["volumeMounts"]:
            if "subPath" in mount:
                file = files[mount["name"], mount.pop("subPath")]
                mount["name"] = f"file-{len(volumes)}"
                volumes.append({"name": mount["name"], "hostPath": {"path": str(file), "type": "File"}})

    native = [c for c in spec.get("initContainers", []) if c["name"] == "sidecar"]
    spec["initContainers"] = [c for c in spec.get("initContainers", []) if c["name"] != "sidecar"]
    spec["containers"] = [*native, *spec["containers"]]
    spec["volumes"] = volumes
    spec.pop("affinity", None)
    spec["restartPolicy"] = "Never"
    metadata["annotations"] = {SECCOMP: "localhost/runtime-default.json", INIT_TYPE: "always"}
    metadata["name"] = f"{stateful['metadata']['name']}-0"
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


class Pod:
    """One workspace pod, played from the chart; gone at the end."""

    def __init__(self, release, values, folder):
        docs = charts.template(charts.WORKSPACE, values, release=release)
        self.manifest = transform(docs, folder / "volumes")
        self.name = self.manifest["metadata"]["name"]
        file = folder / "pod.yaml"
        file.write_text(yaml.safe_dump(self.manifest))
        self.remove()
        podman("kube", "play", "--seccomp-profile-root", SETTINGS, file)

    def remove(self):
        podman("pod", "rm", "--force", "--time", "5", self.name, check=False)

    def container(self, name):
        return f"{self.name}-{name}"

    def exec(self, name, *command, check=True, **more):
        return podman("exec", *more.pop("flags", ()), self.container(name), *command, check=check, **more)

    def client(self, *words, **more):
        """A command by the agent: its client, its config, the sidecar, the sandbox."""
        return self.exec("agent", "/opt/sandbox-sidecar/agent-client", "exec", *words, **more)

    def connect(self, *requests):
        """Requests as `kubectl exec -i … connect` carries them, to where the pod's config says; their answers."""
        words = ["podman", "exec", "-i", self.container("sidecar"), "sandbox-sidecar", "connect"]
        hello = [("initialize", {"clientName": "outside"}), ("initialized", None), *requests]
        answers = []
        with subprocess.Popen(words, env=ENV, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as connect:
            for number, (method, params) in enumerate(hello):
                notification = method == "initialized"
                message = {"method": method, "params": params} if params else {"method": method}
                connect.stdin.write(json.dumps(message if notification else {"id": number, **message}) + "\n")
                connect.stdin.flush()
                if not notification:
                    answers.append(json.loads(connect.stdout.readline()))
                    assert answers[-1]["id"] == number, answers[-1]
            connect.stdin.close()
        return answers

    def logs(self, name):
        done = podman("logs", self.container(name), check=False)
        return done.stdout + done.stderr

    def inspect(self, name):
        [found] = yaml.safe_load(podman("inspect", self.container(name)).stdout)
        return found

    def ip(self):
        infra = podman("pod", "inspect", "--format", "{{.InfraContainerID}}", self.name).stdout.strip()
        form = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
        return podman("inspect", "--format", form, infra).stdout.strip()
