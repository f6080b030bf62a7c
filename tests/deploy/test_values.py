"""values.yaml and its schema: no value is dead, no misspelling passes, contradictions are told in a sentence."""

import copy
import functools
import re
import tomllib

import pytest
import yaml

import charts
from charts import MONITORING, WORKSPACE

# Another value than the default, where flipping or lengthening it would not be valid.
OTHER = {
    (WORKSPACE.name, key): value
    for key, value in {
        "image.digest": "sha256:" + "1" * 64,
        "image.pullPolicy": "Never",
        "tools.pullPolicy": "Never",
        "tools.image": "registry.example.com/other:1",
        "agent.pullPolicy": "Never",
        "workspace.type": "persistentVolumeClaim",
        "workspace.sizeLimit": "3Gi",
        "workspace.persistentVolumeClaim.size": "77Gi",
        "workspace.persistentVolumeClaim.accessModes": ["ReadWriteMany"],
        "agent.homeSizeLimit": "1Gi",
        "home.sizeLimit": "3Gi",
        "tmp.sizeLimit": "3Gi",
        "auth.mode": "podLocal",  # Where it is existingSecret, and nothing asks for that.
        "service.bindAddress": "::",
        "umask": "077",
        "networkPolicy.egress": "open",
        "sidecar.config": {"profile": "readOnly"},
        "imagePullSecrets": [{"name": "other"}],
        "agent.env": [{"name": "A", "value": "b"}],
        "agent.command": ["/other"],
        "agent.args": ["--other"],
        "agent.securityContext": {"privileged": False},
        "podSecurityContext.seccompProfile.type": "Localhost",
        "affinity": {"podAffinity": {}},
        "preflight.nodeSelectors": [{"name": "other", "labels": {"a": "b"}}],
        "extraObjects": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}}],
    }.items()
} | {
    (MONITORING.name, key): value
    for key, value in {
        "slo.launchLatency.thresholdSeconds": "0.05",
        "podMonitor.interval": "77s",
        "podMonitor.scrapeTimeout": "7s",
        "alerts.absentFor": "77m",
        "alerts.disabled": ["SandboxOomLoop"],
        "alerts.enforcementIgnoredParts": ["pty"],
        "podMonitor.namespaces": ["other"],
    }.items()
}

# What must change too, for the values not to contradict each other.
TOGETHER = {"auth.mode": (("auth", "existingSecret", "name"), "")}

# Values whose change replaces objects or is refused by the API server; their comments say so.
FIXED = {
    "nameOverride", "fullnameOverride",
    "workspace.persistentVolumeClaim.storageClassName", "workspace.persistentVolumeClaim.accessModes",
}


def other(chart, path, value):
    """A value that differs from this one."""
    key = (chart.name, ".".join(path))
    if key in OTHER and OTHER[key] != value:
        return OTHER[key]
    if "resources" in path:
        return "77Gi"
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1 if value != 99.9 else 99.5
        case str():
            return f"{value}-other" if value else "other"
        case [_, *_]:
            return []
        case []:
            return [{"name": "other"}]
        case {}:
            return {"other": "yes"}
    raise AssertionError(f"{key}: say in OTHER what else it may be")


@functools.cache
def contexts(chart):
    """Values that make sense together, each with its objects; a key may matter in some of them only."""
    loaded = [charts.load(file) for file in charts.ci_files(chart)]
    loaded.sort(key=lambda values: -len(list(charts.leaves(values))))
    return [(charts.merged(chart, values), charts.template(chart, values)) for values in loaded]


@functools.cache
def changed_by(chart, path):
    """(before, after) of the first values in which a change of this key changes the output."""
    errors = []
    for values, before in contexts(chart):
        value = functools.reduce(lambda place, key: place[key], path, values)
        changed = charts.with_value(values, path, other(chart, path, value))
        if ".".join(path) in TOGETHER:
            changed = charts.with_value(changed, *TOGETHER[".".join(path)])
        try:
            after = charts.template(chart, changed)
        except charts.HelmError as error:
            errors.append(str(error))
            continue
        if after != before:
            return before, after
    raise AssertionError(f"{'.'.join(path)} changes nothing in any ci values file; {errors[:1]}")


KEYS = [(chart, path) for chart in charts.CHARTS for path, _ in charts.leaves(charts.defaults(chart))]
each_key = pytest.mark.parametrize(("chart", "path"), KEYS, ids=[f"{c.name}:{'.'.join(p)}" for c, p in KEYS])


@each_key
def test_every_key_changes_the_output(chart, path):
    changed_by(chart, path)


def immutable(docs):
    """What the API server lets nobody change, by object."""
    out = {}
    for doc in docs:
        spec = doc.get("spec")
        match doc["kind"]:
            case "StatefulSet":
                loose = {"replicas", "template", "updateStrategy", "minReadySeconds", "ordinals", "revisionHistoryLimit",
                         "persistentVolumeClaimRetentionPolicy"}
                fixed = {key: value for key, value in spec.items() if key not in loose}
            case "PersistentVolumeClaim":
                fixed = {key: value for key, value in spec.items() if key != "resources"}
            case "Service":
                fixed = {"clusterIP": spec["clusterIP"], "type": spec["type"]}
            case "Job":
                # A hook that is deleted before it is made again.
                policy = doc["metadata"]["annotations"]["helm.sh/hook-delete-policy"]
                assert "before-hook-creation" in policy
                continue
            case _:
                continue
        out[doc["kind"], doc["metadata"]["name"]] = fixed
    return out


@each_key
def test_an_upgrade_changes_nothing_immutable(chart, path):
    if ".".join(path) in FIXED:
        assert "cannot be changed later" in comment(chart, path)
        return
    before, after = map(immutable, changed_by(chart, path))
    for name in before.keys() & after.keys():
        assert before[name] == after[name], name


def test_a_new_version_changes_nothing_immutable(workspace, tmp_path):
    values, docs = workspace
    newer = tmp_path / WORKSPACE.name
    charts.run("cp", "-r", WORKSPACE, newer)
    text = (newer / "Chart.yaml").read_text()
    (newer / "Chart.yaml").write_text(re.sub(r"^(version|appVersion): .*", r"\1: 99.0.0", text, flags=re.M))
    after = charts.template(newer, values)
    assert after != docs
    assert immutable(after) == immutable(docs)


def comment(chart, path):
    """The `# --` comment above a key."""
    lines = (chart / "values.yaml").read_text().splitlines()
    at = 0
    for depth, key in enumerate(path):
        start = "  " * depth + key + ":"
        at = next((i for i in range(at, len(lines)) if lines[i].startswith(start)), None)
        assert at is not None, f"{'.'.join(path)} has no line of its own"
    assert lines[at - 1].strip().startswith("# -- "), f"{'.'.join(path)} has no comment"
    return lines[at - 1].strip().removeprefix("# -- ")


@each_key
def test_every_key_is_in_the_schema_with_a_comment(chart, path):
    schema = yaml.safe_load((chart / "values.schema.json").read_text())
    place = schema
    described = []
    for depth in range(len(path)):
        place = place["properties"][path[depth]]
        place = schema["$defs"][place["$ref"].rsplit("/", 1)[1]] if "$ref" in place else place
        described.append(path[: depth + 1])
        if "properties" not in place or place.get("additionalProperties") is not False:
            break
    for prefix in described[::-1]:
        try:
            assert len(comment(chart, prefix)) > 2
            return
        except AssertionError:
            continue
    raise AssertionError(f"{'.'.join(path)} has no comment")


def maps_with_known_keys(schema, place=None, path=()):
    place = schema if place is None else place
    if "$ref" in place:
        place = schema["$defs"][place["$ref"].rsplit("/", 1)[1]]
    if place.get("additionalProperties") is False:
        yield path
    for key, inner in place.get("properties", {}).items():
        yield from maps_with_known_keys(schema, inner, (*path, key))


MAPS = [(c, p) for c in charts.CHARTS for p in maps_with_known_keys(yaml.safe_load((c / "values.schema.json").read_text()))]


@pytest.mark.parametrize(("chart", "path"), MAPS, ids=[f"{c.name}:{'.'.join(p)}" for c, p in MAPS])
def test_a_misspelt_key_is_named(chart, path):
    values, _ = contexts(chart)[0]
    assert charts.template(chart, values)
    with pytest.raises(charts.HelmError, match="mispelt"):
        charts.template(chart, charts.with_value(values, (*path, "mispelt"), "x"))


def test_a_misspelt_alert_is_named():
    with pytest.raises(charts.HelmError, match="alerts.disabled names SandboxOomLop.*SandboxOomLoop"):
        charts.template(MONITORING, {"alerts": {"disabled": ["SandboxOomLop"]}})


IMAGE = {"repository": "registry.example.com/x"}
CONTRADICTIONS = {
    "auth.existingSecret.name is empty": {"auth": {"mode": "existingSecret"}},
    "auth.mode is podLocal: set": {"auth": {"existingSecret": {"name": "x"}}},
    "auth.mode is podLocal, which has no Secret": {"auth": {"existingSecret": {"agentKey": "x"}}},
    "service.enabled needs auth.mode=existingSecret": {"service": {"enabled": True}},
    "set service.enabled, or leave networkPolicy.apiFrom empty": {"networkPolicy": {"apiFrom": [{"podSelector": {}}]}},
    "networkPolicy.enabled is false": {"networkPolicy": {"enabled": False, "extraEgress": [{}]}},
    "agent.image is empty": {"agent": {"args": ["x"]}},
    "agent.codex needs agent.installClient": {"agent": {"image": "x", "installClient": False}},
    "cannot be cloned with networkPolicy.egress=none": {
        "workspace": {"git": {"url": "https://x"}}, "networkPolicy": {"egress": "none"}},
    "workspace.git.url is empty": {"workspace": {"git": {"ref": "main"}}},
    "workspace.type is emptyDir": {"workspace": {"persistentVolumeClaim": {"existingClaim": "x"}}},
    "must differ": {"sidecar": {"port": 9464}},
    "raise it above that": {"sidecar": {"config": {"limits": {"terminateGraceSeconds": 18}}}},
    "lie in one another": {"home": {"path": "/workspace/home"}},
    "passwd needs podSecurityContext.runAsUser": {"podSecurityContext": {"runAsUser": None}},
    "may hold 18433 MiB in all, but its containers' limits of ephemeral-storage are 18432 MiB": {
        "tmp": {"sizeLimit": "4097Mi"}, "sidecar": {"resources": {"limits": {"ephemeral-storage": "18Gi"}}}},
    "preflight.enabled is false": {"preflight": {"nodeSelectors": [{"name": "a", "labels": {}}]}},
}


@pytest.mark.parametrize("sentence", CONTRADICTIONS)
def test_contradictory_values_fail_with_a_sentence(sentence):
    assert charts.template(WORKSPACE, {"image": IMAGE}), "without the contradiction it renders"
    with pytest.raises(charts.HelmError, match=re.escape(sentence)):
        charts.template(WORKSPACE, {"image": IMAGE, **CONTRADICTIONS[sentence]})


GIB = 2**30
# What the emptyDirs may hold, against what the pod may use: by default 18 GiB of 20.
FITTING = {
    "a power of ten": {"sidecar": {"resources": {"limits": {"ephemeral-storage": "20e9"}}}},
    "exbibytes": {"extraContainers": [{"name": "x", "resources": {"limits": {"ephemeral-storage": "1Ei"}}}],
                  "tmp": {"sizeLimit": "900Gi"}},
    "nothing where a limit would be": {"extraContainers": [{"name": "x", "resources": None}, {"name": "y", "resources": {"limits": None}}]},
    "a sidecar of one's own": {
        "tmp": {"sizeLimit": "9Gi"}, "extraInitContainers": [
            {"name": "x", "restartPolicy": "Always", "resources": {"limits": {"ephemeral-storage": "4G"}}}]},
    "in the same notation": {"sidecar": {"resources": {"limits": {"ephemeral-storage": "18Gi"}}}},
    "a number of bytes": {"sidecar": {"resources": {"limits": {"ephemeral-storage": 18 * GIB}}}},
    "in memory, which counts as memory": {
        "sidecar": {"resources": {"limits": {"ephemeral-storage": "18Gi"}}},
        "extraVolumes": [{"name": "m", "emptyDir": {"medium": "Memory", "sizeLimit": "50Gi"}}]},
    "a claim, which is the storage's": {
        "workspace": {"type": "persistentVolumeClaim"}, "sidecar": {"resources": {"limits": {"ephemeral-storage": "8Gi"}}}},
    "no limit at all": {"tmp": {"sizeLimit": "900Gi"}, "sidecar": {"resources": {"limits": {"ephemeral-storage": None}}}},
    "another container's limit": {
        "tmp": {"sizeLimit": "9Gi"}, "extraContainers": [{"name": "x", "resources": {"limits": {"ephemeral-storage": "4G"}}}]},
}
NOT_FITTING = {
    "an init container, which has ended by then": {
        "tmp": {"sizeLimit": "9Gi"},
        "extraInitContainers": [{"name": "x", "resources": {"limits": {"ephemeral-storage": "4G"}}}]},
    "a volume of a power of ten": {"extraVolumes": [{"name": "m", "emptyDir": {"sizeLimit": "1E"}}]},
    "one byte less": {"sidecar": {"resources": {"limits": {"ephemeral-storage": 18 * GIB - 1}}}},
    "thousands, not 1024s": {"sidecar": {"resources": {"limits": {"ephemeral-storage": "18G"}}}},
    "a volume of one's own": {"extraVolumes": [{"name": "m", "emptyDir": {"sizeLimit": "50Gi"}}]},
    "a claim": {
        "workspace": {"type": "persistentVolumeClaim"}, "sidecar": {"resources": {"limits": {"ephemeral-storage": "8191Mi"}}}},
    "the agent's home, its /tmp and the CLI's files": {"agent": {"image": "x", "homeSizeLimit": "4Gi"}},
    "too little for another container": {
        "tmp": {"sizeLimit": "9Gi"}, "extraContainers": [{"name": "x", "resources": {"limits": {"ephemeral-storage": "3G"}}}]},
}


@pytest.mark.parametrize("what", FITTING)
def test_empty_dirs_that_fit(what):
    charts.template(WORKSPACE, {"image": IMAGE, **FITTING[what]})


@pytest.mark.parametrize("what", NOT_FITTING)
def test_empty_dirs_that_do_not_fit(what):
    with pytest.raises(charts.HelmError, match="the emptyDirs of the pod may hold"):
        charts.template(WORKSPACE, {"image": IMAGE, **NOT_FITTING[what]})


OF_KUBERNETES = {
    "cpuu": ("sidecar", "resources", "limits"),
    "capabilites": ("securityContext",),
    "drp": ("securityContext", "capabilities"),
    "typ": ("podSecurityContext", "seccompProfile"),
    "runAsUsr": ("agent", "securityContext"),
    "nodeAfinity": ("affinity",),
}


@pytest.mark.parametrize("key", OF_KUBERNETES)
def test_a_misspelt_key_of_kubernetes_own_is_named(key):
    """Where the API server would drop it without a word."""
    values = {"image": IMAGE, "agent": {"image": "x"}}
    assert charts.template(WORKSPACE, values)
    with pytest.raises(charts.HelmError, match=f"'{key}' not allowed"):
        charts.template(WORKSPACE, charts.with_value(values, (*OF_KUBERNETES[key], key), "1"))


def test_a_misspelt_key_of_a_toleration_is_named():
    right = {"key": "agents", "operator": "Exists", "effect": "NoSchedule"}
    assert charts.template(WORKSPACE, {"image": IMAGE, "tolerations": [right]})
    with pytest.raises(charts.HelmError, match="'efect' not allowed"):
        charts.template(WORKSPACE, {"image": IMAGE, "tolerations": [{**right, "efect": "NoSchedule"}]})


def test_resources_of_other_makers_are_taken():
    limits = {"nvidia.com/gpu": 1, "hugepages-2Mi": "64Mi"}
    docs = charts.template(WORKSPACE, {"image": IMAGE, "sidecar": {"resources": {"limits": limits}}})
    assert limits.items() <= charts.container(docs, "sidecar")["resources"]["limits"].items()


def test_each_contradiction_of_the_chart_is_tested():
    fails = (WORKSPACE / "templates" / "_validate.tpl").read_text().count("fail ")
    assert fails == len(CONTRADICTIONS)


def test_without_an_image_the_way_to_one_is_told():
    with pytest.raises(charts.HelmError, match="make images.*image.repository"):
        charts.template(WORKSPACE, {})


# The keys of the sidecar's config.

SET_BY_THE_CHART = {"listen", "adminListen", "workspaceRoot", "tokenFile", "stateDir", "insecureNoAuth", "umask"}
# A pod of the chart has one agent, which is given its token by a file: nobody is there who signs.
NOT_OFFERED = {"jwt.publicKeyFile", "jwt.sharedSecretFile", "jwt.issuer", "jwt.audience", "jwt.clockSkewSeconds"}
# The API is on loopback, or behind what encrypts between pods.
NOT_OFFERED |= {"tls.certFile", "tls.keyFile"}


def table(name):
    """name → kind, from a table of the program's."""
    text = (charts.ROOT / "sidecar/src/config/keys.rs").read_text()
    text = re.search(rf"pub (?:const|static) {name}: .*?\n\];", text, re.S)[0]
    keys = dict(re.findall(r'\bkey\(\s*"([\w.]+)",\s*Kind::(\w+)', text))
    keys |= dict(re.findall(r'name: "([\w.]+)",\s*kind: Kind::(\w+)', text))
    return keys


def program_keys():
    keys = table("KEYS")
    assert len(keys) > 40
    return keys


def config_schema():
    schema = yaml.safe_load((WORKSPACE / "values.schema.json").read_text())
    return schema["properties"]["sidecar"]["properties"]["config"]["properties"]


def schema_keys():
    for key, place in config_schema().items():
        if key == "profiles":
            continue
        if "properties" in place:
            yield from ((f"{key}.{inner}", inner_place) for inner, inner_place in place["properties"].items())
        else:
            yield key, place


def test_the_schema_has_every_key_of_the_program():
    assert {key for key, _ in schema_keys()} == program_keys().keys() - SET_BY_THE_CHART - NOT_OFFERED


def test_the_schema_has_every_key_of_a_profile():
    profile = config_schema()["profiles"]["additionalProperties"]
    assert profile["properties"].keys() == table("PROFILE_KEYS").keys()


def test_a_profile_arrives_as_it_is():
    profiles = {"docs": {"extends": "readOnly", "writeRoots": ["/docs"]},
                "web": {"extends": "workspaceWrite", "network": "ports", "tcpConnect": [443], "udp": False}}
    config = {"profiles": profiles, "profile": "docs", "ceiling": "web"}
    [map] = charts.kind(charts.template(WORKSPACE, {"image": IMAGE, "sidecar": {"config": config}}), "ConfigMap")
    toml = tomllib.loads(map["data"]["sidecar.toml"])
    assert {key: toml[key] for key in config} == config


def test_the_check_is_asked_for_profiles_that_it_knows():
    def args(config):
        docs = charts.template(WORKSPACE, {"image": IMAGE, "preflight": {"enabled": True}, "sidecar": {"config": config}})
        checks = [c for _, spec, _ in charts.pods(docs) for c in charts.containers(spec) if c["name"] == "check"]
        assert len(checks) >= 2, "the preflight and the test"
        [args] = {tuple(check["args"]) for check in checks}
        return args

    plain = ("check", "--workspace-root", "/workspace")
    assert args({}) == plain
    assert args({"ceiling": "workspaceWriteNoNetwork", "profile": "readOnly"}) == (
        *plain, "--ceiling", "workspaceWriteNoNetwork", "--profile", "readOnly")
    # One of the operator's own is in the config alone.
    own = {"profiles": {"web": {"extends": "workspaceWrite"}}, "ceiling": "web", "profile": "readOnly"}
    assert args(own) == (*plain, "--profile", "readOnly")


SAMPLES = {"Text": 'a "b" <c> & \\d', "Bool": True, "Number": 134217728, "List": ["/a b", "<&>"], "Ports": [0, 443, 65535]}


@pytest.mark.parametrize("key", sorted(program_keys().keys() - SET_BY_THE_CHART - NOT_OFFERED))
def test_a_key_of_the_config_arrives_as_it_is(key):
    place = dict(schema_keys())[key]
    sample = place["enum"][-1] if "enum" in place else SAMPLES[program_keys()[key]]
    if place.get("maximum"):
        sample = place["maximum"]
    values = charts.with_value({"image": copy.deepcopy(IMAGE), "home": {"writable": False},
                                "terminationGracePeriodSeconds": 300000000},
                               ("sidecar", "config", *key.split(".")), sample)
    [config] = charts.kind(charts.template(WORKSPACE, values), "ConfigMap")
    toml = tomllib.loads(config["data"]["sidecar.toml"])
    assert functools.reduce(lambda place, part: place[part], key.split("."), toml) == sample
