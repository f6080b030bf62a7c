"""Every name in the rendered objects that points at something points at something that is there."""

import re

import charts


def names_in(value):
    """All strings of the values: what they name is not the chart's to make."""
    match value:
        case dict():
            for inner in value.values():
                yield from names_in(inner)
        case list():
            for inner in value:
                yield from names_in(inner)
        case str():
            yield value


def selects(selector, labels):
    return selector.items() <= labels.items()


def test_volumes_and_what_they_are_made_of(workspace):
    values, docs = workspace
    maps = {doc["metadata"]["name"]: doc.get("data", {}) for doc in charts.kind(docs, "ConfigMap")}
    claims = {doc["metadata"]["name"] for doc in charts.kind(docs, "PersistentVolumeClaim")}
    given = set(names_in(values))
    for _, spec, _ in charts.pods(docs):
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        assert len(volumes) == len(spec["volumes"])
        mounted = {mount["name"] for c in charts.containers(spec) for mount in c.get("volumeMounts", [])}
        assert mounted == volumes.keys(), "each is mounted, and each mount has its volume"
        for name, volume in volumes.items():
            if "configMap" in volume:
                source = volume["configMap"]
                items = {item["key"]: item["path"] for item in source["items"]}
                assert items.keys() <= maps[source["name"]].keys(), name
                paths = [m["subPath"] for c in charts.containers(spec) for m in c.get("volumeMounts", [])
                         if m["name"] == name and "subPath" in m]
                assert set(paths) <= set(items.values()), name
            elif "secret" in volume:
                assert volume["secret"]["secretName"] in given, name
            elif "persistentVolumeClaim" in volume:
                claim = volume["persistentVolumeClaim"]["claimName"]
                assert claim in claims or claim in given, name
            else:
                assert "emptyDir" in volume, name


def test_every_key_of_the_config_map_is_mounted(workspace):
    _, docs = workspace
    _, spec = charts.workspace_pod(docs)
    for config in charts.kind(docs, "ConfigMap"):
        if "sidecar.toml" not in config["data"]:
            continue
        used = {item["key"] for volume in spec["volumes"] for item in volume.get("configMap", {}).get("items", [])}
        assert config["data"].keys() == used


def test_mounts_do_not_hide_one_another_and_no_secret_is_a_sub_path(workspace):
    _, docs = workspace
    for _, spec, _ in charts.pods(docs):
        secret = {v["name"] for v in spec["volumes"] if "secret" in v or v["name"] == "state"}
        for c in charts.containers(spec):
            paths = [mount["mountPath"] for mount in c.get("volumeMounts", [])]
            assert len(paths) == len(set(paths)), c["name"]
            assert not [m for m in c.get("volumeMounts", []) if m["name"] in secret and "subPath" in m]


def test_ports(workspace):
    _, docs = workspace
    metadata, spec = charts.workspace_pod(docs)
    ports = {port["name"]: port["containerPort"] for c in charts.containers(spec) for port in c.get("ports", [])}
    for c in charts.containers(spec):
        own = {port["name"] for port in c.get("ports", [])}
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            if probe in c:
                assert c[probe]["httpGet"]["port"] in own
    [service] = charts.kind(docs, "Service")
    for port in service["spec"]["ports"]:
        assert ports[port["targetPort"]] == port["port"]
    assert selects(service["spec"]["selector"], metadata["labels"])
    for policy in charts.kind(docs, "NetworkPolicy"):
        assert selects(policy["spec"]["podSelector"]["matchLabels"], metadata["labels"])
        open_ports = {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]}
        assert open_ports == set(ports.values())
    toml = charts.kind(docs, "ConfigMap")[0]["data"]["sidecar.toml"]
    assert f":{ports['admin']}\"" in toml
    assert ("api" in ports) == bool(re.search(r'listen = \["ws://(0\.0\.0\.0|\[::\]):', toml))


def test_selectors(workspace):
    _, docs = workspace
    metadata, spec = charts.workspace_pod(docs)
    [stateful] = charts.kind(docs, "StatefulSet")
    assert stateful["spec"]["serviceName"] in {s["metadata"]["name"] for s in charts.kind(docs, "Service")}
    selector = stateful["spec"]["selector"]["matchLabels"]
    assert selects(selector, metadata["labels"])
    for hook_metadata, hook_spec, doc in charts.pods(docs):
        if doc["kind"] == "StatefulSet":
            continue
        assert not selects(selector, hook_metadata["labels"]), "a hook's pod is no workspace"
        for term in hook_spec.get("affinity", {}).get("podAffinity", {}).get(
                "requiredDuringSchedulingIgnoredDuringExecution", []):
            assert selects(term["labelSelector"]["matchLabels"], metadata["labels"])
    for budget in charts.kind(docs, "PodDisruptionBudget"):
        assert selects(budget["spec"]["selector"]["matchLabels"], metadata["labels"])
    default = metadata["annotations"]["kubectl.kubernetes.io/default-container"]
    assert default in {c["name"] for c in charts.containers(spec)}


def test_hooks_are_let_in_where_they_connect(workspace):
    values, docs = workspace
    [policy] = charts.kind(docs, "NetworkPolicy") or [None]
    for metadata, spec, doc in charts.pods(docs):
        if doc["kind"] == "Pod" and policy and values["service"]["enabled"]:
            rules = [rule for rule in policy["spec"]["ingress"] if rule["ports"][0]["port"] == values["sidecar"]["port"]]
            peers = [peer["podSelector"]["matchLabels"] for rule in rules for peer in rule["from"]
                     if "namespaceSelector" not in peer]
            assert any(selects(peer, metadata["labels"]) for peer in peers)


def test_every_path_that_a_config_names_is_mounted(workspace):
    _, docs = workspace
    _, spec = charts.workspace_pod(docs)
    data = charts.kind(docs, "ConfigMap")[0]["data"]
    readers = {"sidecar": ["sidecar.toml"], "agent": ["agent-client.toml", "environments.toml"]}
    for c in charts.containers(spec):
        mounts = [mount["mountPath"] for mount in c.get("volumeMounts", [])]
        for name in readers.get(c["name"], []):
            for path in re.findall(r'"(?:unix://)?(/[^"]*)"', data.get(name, "")):
                if name == "environments.toml" and path.startswith("/etc"):
                    path = path.rsplit("/", 1)[0]
                assert any(path == m or path.startswith(f"{m}/") for m in mounts), (c["name"], name, path)


def test_a_path_that_is_not_mounted_is_found():
    """The control of the test above: its pattern sees the paths of both kinds of file."""
    docs = charts.template(charts.WORKSPACE, charts.load(charts.WORKSPACE / "ci/agent-values.yaml"))
    data = charts.kind(docs, "ConfigMap")[0]["data"]
    for name in ("sidecar.toml", "agent-client.toml", "environments.toml"):
        assert re.findall(r'"(?:unix://)?(/[^"]*)"', data[name]), name
