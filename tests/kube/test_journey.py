"""Agent container → sidecar → sandboxed command, in the pod that the chart renders."""

import base64
import json
import subprocess

import pytest

import podman as p
from http_get import get, until

charts = p.charts
UID = "65532"


def test_a_command_runs_and_its_exit_code_comes_back(beside_an_agent):
    done = beside_an_agent.client("--", "sh", "-c", "id -u; id -un; pwd; echo oops >&2; exit 7", check=False)
    assert (done.stdout.split(), done.returncode) == ([UID, "sandbox", "/workspace"], 7)
    assert done.stderr.splitlines()[0] == "oops"


def test_a_terminal(beside_an_agent):
    plain = beside_an_agent.client("--", "sh", "-c", "test -t 1; echo $?")
    assert plain.stdout.strip() == "1"
    with_one = beside_an_agent.client("-t", "--", "sh", "-c", "test -t 0 && test -t 1 && tty")
    assert with_one.stdout.startswith("/dev/pts/")


def test_through_the_gateway(beside_an_agent):
    """Agent, its gateway as environments.toml has it, sidecar, sandbox; and what is written is there for both containers."""
    pod = beside_an_agent
    pod.exec("agent", "sh", "-c", "echo from-the-agent > /workspace/given.txt")
    with pod.gateway() as gateway:
        assert gateway.hello["result"]["environmentInfo"]["cwd"] == "file:///workspace"
        started = gateway.start("receipt", "true")["result"]
        assert started["enforcement"] and started["sandboxType"] != "none"
        for tty, terminal in (False, "1"), (True, "0"):
            name = f"tty-{tty}"
            # Of two pipes nobody knows which is read first.
            script = "exec 2>&1; cat given.txt; test -t 0; echo $?; cat /run/sandbox-sidecar/token; "
            script += f"echo {name} > {name}; exit 7"
            code, output = gateway.run(name, "sh", "-c", script, tty=tty)
            lines = output.replace("\r", "").splitlines()
            assert (code, lines[:2]) == (7, ["from-the-agent", terminal])
            assert "Permission denied" in lines[2]
            for container in ("agent", "sidecar"):
                assert pod.exec(container, "cat", f"/workspace/{name}").stdout == f"{name}\n"
        answer = gateway.call("fs/readFile", path="file:///workspace/given.txt")
        assert base64.b64decode(answer["result"]["dataBase64"]) == b"from-the-agent\n"


def test_files_are_the_same_in_both_containers(beside_an_agent):
    beside_an_agent.client("--", "sh", "-c", "echo from-the-command > a.txt")
    assert beside_an_agent.exec("agent", "cat", "/workspace/a.txt").stdout == "from-the-command\n"
    beside_an_agent.exec("agent", "sh", "-c", "echo from-the-agent > /workspace/b.txt")
    assert beside_an_agent.client("--", "sh", "-c", "cat b.txt; echo more >> b.txt").stdout == "from-the-agent\n"
    assert beside_an_agent.exec("agent", "stat", "-c", "%a %u %g", "/workspace/a.txt").stdout.split() == ["664", UID, UID]


def test_what_is_the_agents_is_not_the_commands(beside_an_agent):
    pod = beside_an_agent
    token = pod.exec("agent", "cat", "/run/sandbox-sidecar/token").stdout.strip()
    assert len(token) == 64, "the agent reads it"
    assert pod.exec("agent", "touch", "/run/sandbox-sidecar/x", check=False).returncode, "and cannot write there"
    for script in ("cat /run/sandbox-sidecar/token", "cat /etc/sandbox-sidecar/sidecar.toml", "ls /", "ls /home/agent",
                   "touch /opt/sandbox-sidecar/x", "echo > /dev/tcp/127.0.0.1/8790"):
        done = pod.client("--", "bash", "-c", script, check=False)
        assert done.returncode and token not in done.stdout, script


def test_tools_work_in_the_sandbox(beside_an_agent):
    script = """set -e
        git init -q repository && cd repository && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x
        git log --oneline | wc -l; python3 -m venv env && env/bin/python -c 'print(6 * 7)'
        node -e 'console.log(1 + 1)'; echo 'int main(void){return 3;}' > a.c && cc a.c -o a && { ./a || echo $?; }
        mkdir -p ~/.cache/tool && touch ~/.cache/tool/x && echo home"""
    assert beside_an_agent.client("--", "bash", "-c", script).stdout.split() == ["1", "42", "2", "3", "home"]


def test_git_trusts_the_workspace(beside_an_agent):
    """Its root belongs to root, as a volume's does."""
    pod = beside_an_agent
    script = "git init -q . && git status --porcelain | head -0 && git rev-parse --is-inside-work-tree"
    assert pod.client("--", "sh", "-c", script).stdout.strip() == "true"
    assert pod.exec("agent", "git", "status", "--porcelain").returncode == 0


def test_the_containers_are_confined_as_the_chart_says(beside_an_agent):
    for name in ("sidecar", "agent"):
        found = beside_an_agent.inspect(name)
        status = beside_an_agent.exec(name, "cat", "/proc/1/status").stdout
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        assert fields["Uid"].split() == [UID] * 4
        assert int(fields["CapEff"], 16) == 0 and int(fields["CapBnd"], 16) == 0
        assert fields["NoNewPrivs"] == "1"
        assert fields["Seccomp"] == "2", "a filter"
        assert found["HostConfig"]["ReadonlyRootfs"] is True
        assert beside_an_agent.exec(name, "touch", "/usr/x", check=False).returncode
        # RuntimeDefault, and not another filter: it refuses namespaces.
        assert beside_an_agent.exec(name, "unshare", "--user", "true", check=False).returncode


def test_the_ceiling_holds_under_runtime_default(beside_an_agent):
    done = beside_an_agent.exec("sidecar", "sandbox-sidecar", "check", "--json", "--config", "/etc/sandbox-sidecar/sidecar.toml")
    assert json.loads(done.stdout)["verdict"]["holds"] is True


def test_through_kubectl_exec_without_a_port(beside_an_agent):
    """What `kubectl exec -i … connect` carries: a line of JSON in, a line of JSON out, and no token."""
    with beside_an_agent.connect() as outside:
        assert outside.call("environment/info")["result"]["cwd"] == "file:///workspace"
        assert outside.run("outside", "sh", "-c", "echo in the pod > outside; cat outside") == (0, "in the pod\n")
    assert beside_an_agent.exec("agent", "cat", "/workspace/outside").stdout == "in the pod\n"


def test_an_image_without_a_shell(without_a_shell):
    pod = without_a_shell
    assert pod.exec("sidecar", "/bin/sh", "-c", "true", check=False).returncode, "there is none"
    done = pod.client("-v", "--", "/opt/sandbox-sidecar/agent-client", "--version")
    assert done.stdout.startswith("agent-client ")
    missing = pod.client("--", "sh", "-c", "true", check=False)
    assert missing.returncode == 127


def test_a_uid_that_the_cluster_picks(of_another_uid):
    """No passwd entry, no home of its own in the image."""
    pod = of_another_uid
    assert pod.client("--", "sh", "-c", "id -u; touch ~/x x && echo written").stdout.split() == ["1000680000", "written"]
    assert pod.exec("agent", "stat", "-c", "%u", "/workspace/x").stdout.strip() == "1000680000"


def test_a_restart_of_the_sidecar_in_mid_run(beside_an_agent):
    """What runs is lost and said to be lost; the agent's next command runs, with the token of the new start."""
    pod = beside_an_agent
    before = pod.exec("agent", "cat", "/run/sandbox-sidecar/token").stdout
    client = subprocess.Popen(["podman", "exec", pod.container("agent"), "/opt/sandbox-sidecar/agent-client", "exec",
                               "--", "sh", "-c", "touch started; sleep 1000"], env=p.ENV, stderr=subprocess.PIPE, text=True)
    until("the command", lambda: pod.exec("agent", "test", "-e", "/workspace/started", check=False).returncode == 0)
    p.podman("restart", "--time", "20", pod.container("sidecar"))
    _, stderr = client.communicate(timeout=120)
    assert client.returncode not in (0, None) and stderr
    until("ready again", lambda: get(f"{pod.admin}/readyz")[0] == 200)
    assert pod.exec("agent", "cat", "/run/sandbox-sidecar/token").stdout != before
    assert pod.client("--", "echo", "on it goes").stdout == "on it goes\n"
    assert pod.exec("sidecar", "pgrep", "-f", "sleep 1000", check=False).returncode == 1, "nothing is left of it"


def service_name(pod):
    [service] = charts.kind(pod.docs, "Service")
    return f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc"


def test_helm_test(behind_a_service, scratch):
    """Its pod, as it is rendered: the check of the node, and a command by a client over the Service."""
    pod = behind_a_service
    hosts = {pod.ip(): [service_name(pod)]}
    ended = p.played_hook(pod.docs, "test", scratch / "helm-test", hosts=hosts, secrets=pod.secrets)
    assert {name: code for name, (code, _) in ended.items()} == {"check": 0, "client": 0}, ended
    assert "ceiling" in ended["check"][1] and "launch" in ended["client"][1], ended


def test_helm_test_fails_with_a_wrong_token(behind_a_service, scratch):
    pod = behind_a_service
    wrong = {"tokens": {**pod.secrets["tokens"], "agent": "0" * 64}}
    ended = p.played_hook(pod.docs, "test", scratch / "helm-test-wrong", hosts={pod.ip(): [service_name(pod)]}, secrets=wrong)
    assert ended["client"][0] != 0 and "token" in ended["client"][1], ended


def test_the_preflight_job(behind_a_service, scratch):
    ended = p.played_hook(behind_a_service.docs, "pre-install", scratch / "preflight")
    assert [code for code, _ in ended.values()] == [0], ended


def test_the_preflight_job_fails_on_a_node_without_landlock(behind_a_service, scratch, without_landlock):
    ended = p.played_hook(behind_a_service.docs, "pre-install", scratch / "preflight-old", profiles=without_landlock)
    assert [code for code, _ in ended.values()] == [78], ended


@pytest.mark.parametrize("name", ["sidecar.toml", "agent-client.toml", "environments.toml"])
def test_the_configs_are_where_they_belong(beside_an_agent, name):
    place = {"sidecar.toml": ("sidecar", "/etc/sandbox-sidecar"), "agent-client.toml": ("agent", "/etc/agent-client"),
             "environments.toml": ("agent", "/home/agent/.codex")}[name]
    assert beside_an_agent.exec(place[0], "test", "-s", f"{place[1]}/{name}").returncode == 0
