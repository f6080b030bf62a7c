"""What the workspace pod is: its topologies, and how little it may do."""

import charts
from charts import WORKSPACE

RESTRICTED_VOLUMES = {"configMap", "emptyDir", "persistentVolumeClaim", "secret"}


def render(name):
    return charts.template(WORKSPACE, charts.load(WORKSPACE / f"ci/{name}-values.yaml"))


def names(docs, group):
    return [c["name"] for c in charts.workspace_pod(docs)[1].get(group, [])]


def test_without_an_agent_the_sidecar_is_the_container():
    docs = render("minimal")
    assert (names(docs, "initContainers"), names(docs, "containers")) == ([], ["sidecar"])
    assert "restartPolicy" not in charts.container(docs, "sidecar")


def test_beside_an_agent_it_is_a_native_sidecar_that_starts_before_it():
    docs = render("agent")
    assert (names(docs, "initContainers"), names(docs, "containers")) == (["install", "sidecar"], ["agent"])
    sidecar = charts.container(docs, "sidecar")
    assert sidecar["restartPolicy"] == "Always"
    assert sidecar["startupProbe"]["httpGet"]["path"] == "/readyz"


def test_native_or_plain_it_is_the_same_container():
    values = charts.load(WORKSPACE / "ci/agent-values.yaml")
    native = charts.container(charts.template(WORKSPACE, values), "sidecar")
    docs = charts.template(WORKSPACE, charts.with_value(values, ("sidecar", "native"), False))
    assert names(docs, "containers") == ["agent", "sidecar"]
    assert charts.container(docs, "sidecar") == {key: v for key, v in native.items() if key != "restartPolicy"}


def test_the_workspace_is_at_the_same_path_in_both():
    for name in ("agent", "agent-plain", "everything"):
        docs = render(name)
        paths = {m["mountPath"] for who in ("agent", "sidecar") for m in charts.container(docs, who)["volumeMounts"]
                 if m["name"] == "workspace"}
        assert len(paths) == 1, name


def test_an_own_tool_image_runs_the_programs_that_were_copied():
    docs = render("agent-byo")
    sidecar = charts.container(docs, "sidecar")
    assert sidecar["image"] == "registry.example.com/toolchain:2026.11"
    assert sidecar["command"] == ["/opt/sandbox-sidecar/sandbox-sidecar"]
    install = charts.container(docs, "install")
    assert install["command"] + install["args"] == ["/usr/local/bin/sandbox-sidecar", "install", "/opt/sandbox-sidecar/"]


def test_pod_security_restricted(workspace):
    """The profile of that name of the Pod Security Standards, and what goes beyond it."""
    values, docs = workspace
    for _, spec, _ in charts.pods(docs):
        pod = spec["securityContext"]
        assert pod["runAsNonRoot"] is True and pod.get("runAsUser") != 0
        assert pod["seccompProfile"]["type"] == "RuntimeDefault"
        assert not {"hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"} & spec.keys()
        assert spec["automountServiceAccountToken"] is False and spec["enableServiceLinks"] is False
        assert {next(iter(v.keys() - {"name"})) for v in spec["volumes"]} <= RESTRICTED_VOLUMES
        extra = {c["name"] for c in values["extraContainers"] + values["extraInitContainers"]}
        for c in charts.containers(spec):
            if c["name"] in extra:
                continue
            context = c["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert context["readOnlyRootFilesystem"] is True or values["agent"]["securityContext"]
            assert not {"privileged", "procMount", "runAsUser", "seccompProfile"} & context.keys()
            assert not any("hostPort" in port for port in c.get("ports", []))
            assert "memory" in c["resources"]["limits"] and "cpu" not in c["resources"]["limits"]


def test_the_token_is_in_no_environment_and_read_only_for_the_agent(workspace):
    _, docs = workspace
    for _, spec, _ in charts.pods(docs):
        for c in charts.containers(spec):
            for entry in c.get("env", []):
                assert "TOKEN" not in entry["name"] and "secretKeyRef" not in entry.get("valueFrom", {})
            for mount in c.get("volumeMounts", []):
                if mount["name"] == "auth" or (mount["name"] == "state" and c["name"] != "sidecar"):
                    assert mount["readOnly"] is True
    state = [v for v in charts.workspace_pod(docs)[1]["volumes"] if v["name"] == "state"]
    assert state[0]["emptyDir"]["medium"] == "Memory"
    assert not charts.kind(docs, "Secret")


def test_the_home_and_the_tools_of_the_sidecar_are_its_own():
    docs = render("agent")
    agent = {m["name"] for m in charts.container(docs, "agent")["volumeMounts"]}
    sidecar = {m["name"] for m in charts.container(docs, "sidecar")["volumeMounts"]}
    assert agent & sidecar == {"workspace", "state", "files"}


def test_the_claim_is_kept_and_is_no_template_of_the_set():
    docs = render("developer")
    [claim] = charts.kind(docs, "PersistentVolumeClaim")
    assert claim["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert "volumeClaimTemplates" not in charts.kind(docs, "StatefulSet")[0]["spec"]
    assert not charts.kind(render("existing-claim"), "PersistentVolumeClaim")


def egress(mode, **more):
    values = {"image": {"repository": "x"}, "networkPolicy": {"egress": mode, **more}}
    [policy] = charts.kind(charts.template(WORKSPACE, values), "NetworkPolicy")
    assert set(policy["spec"]["policyTypes"]) == {"Ingress", "Egress"}
    return policy["spec"]["egress"]


def test_egress():
    import ipaddress

    assert egress("none") == []
    assert egress("open") == [{}]
    own = [{"to": [{"ipBlock": {"cidr": "10.1.2.3/32"}}]}]
    assert egress("none", extraEgress=own) == own
    public = [block["ipBlock"] for block in egress("public")[1]["to"]]

    def allowed(address):
        ip = ipaddress.ip_address(address)
        return any(ip in ipaddress.ip_network(b["cidr"]) and not any(ip in ipaddress.ip_network(e) for e in b["except"])
                   for b in public)

    for address in ("8.8.8.8", "140.82.121.4", "172.15.0.1", "172.32.0.1", "2606:4700::1"):
        assert allowed(address), address
    for address in ("10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "169.254.169.254",
                    "127.0.0.1", "0.0.0.0", "224.0.0.1", "fd00:ec2::254", "fe80::1", "::1", "64:ff9b::a9fe:a9fe",
                    "2002:a9fe:a9fe::1"):
        assert not allowed(address), address


def test_nobody_is_let_in_but_to_the_metrics():
    [policy] = charts.kind(render("minimal"), "NetworkPolicy")
    [rule] = policy["spec"]["ingress"]
    assert [port["port"] for port in rule["ports"]] == [9464]
    [policy] = charts.kind(render("platform"), "NetworkPolicy")
    api = policy["spec"]["ingress"][0]
    assert [port["port"] for port in api["ports"]] == [8790]
    assert {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "agents"}}} in api["from"]


def test_the_notes_name_the_pod_and_the_agents_lines():
    out = charts.run("helm", "install", "w", WORKSPACE, "--namespace", "team", "--dry-run=client",
                     "--values", WORKSPACE / "ci/platform-values.yaml")
    notes = out.split("NOTES:")[1]
    assert "w-sandbox-sidecar-0" in notes
    assert 'sidecar_url = "ws://w-sandbox-sidecar.team.svc:8790"' in notes
    assert 'kube = "team/w-sandbox-sidecar-0/sidecar"' in notes
    # The operator's own image has the programs outside of its PATH.
    assert 'kube_program = "/opt/sandbox-sidecar/sandbox-sidecar"' in notes
    assert "-c sidecar -- /opt/sandbox-sidecar/sandbox-sidecar connect\n" in notes
