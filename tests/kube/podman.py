"""Podman as the kubelet of one pod: the rendered chart, and the little that must be changed for `podman kube play` 4.3.

What `transform` changes, and why. Everything else reaches podman as the chart has it.

- StatefulSet → its one Pod, named as the StatefulSet controller names it; the preflight Job → its pod. Service,
  NetworkPolicy, affinity: left out; there is no cluster. A Service's name becomes an entry of hostAliases.
- A native sidecar → a plain container. Podman waits for an init container to end, whatever its restartPolicy.
- Init containers get the annotation by which podman keeps them after their end: removing them, it races with its own
  look at whether they still run. restartPolicy Never: with Always it would start them again and again; what must be
  restarted, the tests restart.
- Probes: left out. Podman makes them health checks that need a shell and a timer; the tests ask the endpoints themselves.
- Ports: left out. Podman 4.3 publishes each on the host; the pod's own address is asked instead.
- emptyDir, configMap and secret volumes → hostPath, with the mode that the kubelet gives them (setgid, the fsGroup) and
  the same files. Podman 4.3 knows no emptyDir, and no subPath into a ConfigMap. Where a test fills an emptyDir, it is a
  tmpfs of a size. A claim → hostPath too, a folder of the test's, which outlives the pod.
- The pod's runAsUser and runAsGroup → each container's.
- seccompProfile RuntimeDefault → the annotation for a profile on disk: scripts/containers/runtime-default.json, which is
  what containerd makes of RuntimeDefault for a container without capabilities.
"""

import copy
import os
import pathlib
import subprocess
import sys
import tomllib

import yaml

from rpc import Rpc

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


def host_dir(folder, group, size=None):
    """As the kubelet makes a volume with an fsGroup; with a size, in memory and no larger."""
    folder.mkdir(parents=True)
    if size:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=True)
    os.chown(folder, 0, group)
    folder.chmod(0o2777)
    return {"path": str(folder), "type": "Directory"}


def files_of(volume, maps, secrets):
    """path → text, of a volume that is made from a ConfigMap or a Secret; nothing of an empty one."""
    if "configMap" in volume:
        source, data = volume["configMap"], maps[volume["configMap"]["name"]]
    elif "secret" in volume:
        source, data = volume["secret"], secrets[volume["secret"]["secretName"]]
    else:
        assert "emptyDir" in volume, volume
        return {}
    return {item["path"]: data[item["key"]] for item in source["items"]}


def transform(docs, metadata, spec, folder, secrets=None, sizes=None, claims=None):
    """The Pod for podman, out of one of the chart's; `folder` holds its volumes. `secrets`: name → key → text; `claims`:
    name → folder, as host_dir makes one."""
    maps = {doc["metadata"]["name"]: doc["data"] for doc in charts.kind(docs, "ConfigMap")}
    metadata, spec = copy.deepcopy(metadata), copy.deepcopy(spec)
    context = spec.pop("securityContext")
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    group = context["fsGroup"]

    volumes = []
    for volume in spec["volumes"]:
        if claim := volume.get("persistentVolumeClaim"):
            source = {"path": str(claims[claim["claimName"]]), "type": "Directory"}
            volumes.append({"name": volume["name"], "hostPath": source})
            continue
        place = folder / volume["name"]
        source = host_dir(place, group, (sizes or {}).get(volume["name"]))
        for path, text in files_of(volume, maps, secrets or {}).items():
            (place / path).write_text(text)
            if "secret" in volume:
                os.chown(place / path, 0, group)
                (place / path).chmod(volume["secret"]["defaultMode"])
        volumes.append({"name": volume["name"], "hostPath": source})

    for c in charts.containers(spec):
        for key in ("restartPolicy", "startupProbe", "livenessProbe", "readinessProbe", "ports"):
            c.pop(key, None)
        c["securityContext"] |= {key: context[key] for key in ("runAsUser", "runAsGroup") if key in context}
        c["imagePullPolicy"] = "Never"
        for mount in c["volumeMounts"]:
            if "subPath" in mount:
                file = folder / mount["name"] / mount.pop("subPath")
                mount["name"] = f"file-{len(volumes)}"
                volumes.append({"name": mount["name"], "hostPath": {"path": str(file), "type": "File"}})

    native = [c for c in spec.get("initContainers", []) if c["name"] == "sidecar"]
    spec["initContainers"] = [c for c in spec.get("initContainers", []) if c["name"] != "sidecar"]
    spec["containers"] = [*native, *spec["containers"]]
    spec["volumes"] = volumes
    spec.pop("affinity", None)
    spec["restartPolicy"] = "Never"
    metadata["annotations"] = {SECCOMP: "localhost/runtime-default.json", INIT_TYPE: "always"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


class Played:
    """A pod that podman plays; gone at the end."""

    def __init__(self, manifest, folder, profiles=SETTINGS):
        self.name = manifest["metadata"]["name"]
        self.folder = folder
        file = folder / "pod.yaml"
        file.write_text(yaml.safe_dump(manifest))
        self.remove(volumes=False)
        podman("kube", "play", "--seccomp-profile-root", profiles, file)

    def remove(self, volumes=True):
        podman("pod", "rm", "--force", "--time", "5", self.name, check=False)
        for place in (self.folder / "volumes").iterdir() if volumes else ():
            if place.is_mount():
                subprocess.run(["umount", place], check=True)

    def container(self, name):
        return f"{self.name}-{name}"

    def logs(self, name):
        done = podman("logs", self.container(name), check=False)
        return done.stdout + done.stderr

    def ended(self, name):
        """The exit code of a container, as soon as there is one."""
        return int(podman("wait", self.container(name)).stdout)


def played_hook(docs, hook, folder, hosts=None, profiles=SETTINGS, **more):
    """A hook's pod at its end: container → exit code, and what it printed. `hosts`: address → names, for want of a DNS."""
    [(metadata, spec, doc)] = [pod for pod in charts.pods(docs)
                               if hook in pod[2]["metadata"].get("annotations", {}).get("helm.sh/hook", "").split(",")]
    folder.mkdir()
    manifest = transform(docs, metadata, spec, folder / "volumes", **more)
    manifest["metadata"]["name"] = doc["metadata"]["name"]
    manifest["spec"]["hostAliases"] = [{"ip": address, "hostnames": names} for address, names in (hosts or {}).items()]
    pod = Played(manifest, folder, profiles)
    try:
        names = [c["name"] for c in spec["containers"]]
        return {name: (pod.ended(name), pod.logs(name)) for name in names}
    finally:
        pod.remove()


class Pod(Played):
    """One workspace pod, played from the chart."""

    def __init__(self, release, values, folder, profiles=SETTINGS, **more):
        self.docs = charts.template(charts.WORKSPACE, values, release=release)
        self.secrets = more.get("secrets")
        [stateful] = charts.kind(self.docs, "StatefulSet")
        manifest = transform(self.docs, *charts.workspace_pod(self.docs), folder / "volumes", **more)
        manifest["metadata"]["name"] = f"{stateful['metadata']['name']}-0"
        super().__init__(manifest, folder, profiles)

    def exec(self, name, *command, check=True, **more):
        return podman("exec", self.container(name), *command, check=check, **more)

    def client(self, *words, **more):
        """A command by the agent: its client, its config, the sidecar, the sandbox."""
        return self.exec("agent", "/opt/sandbox-sidecar/agent-client", "exec", *words, **more)

    def connect(self):
        """As `kubectl exec -i … connect` from outside, to where the pod's config says."""
        return self.rpc("sidecar", "sandbox-sidecar", "connect")

    def gateway(self):
        """As the stock CLI in the agent's container starts it."""
        text = self.exec("agent", "sh", "-c", "cat $CODEX_HOME/environments.toml").stdout
        [environment] = tomllib.loads(text)["environments"]
        return self.rpc("agent", environment["program"], *environment["args"])

    def rpc(self, container, *command):
        return Rpc(["podman", "exec", "-i", self.container(container), *command], ENV)

    def inspect(self, name):
        [found] = yaml.safe_load(podman("inspect", self.container(name)).stdout)
        return found

    def ip(self):
        infra = podman("pod", "inspect", "--format", "{{.InfraContainerID}}", self.name).stdout.strip()
        form = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
        return podman("inspect", "--format", form, infra).stdout.strip()
