"""The pods of the tests, and the Prometheus that scrapes them."""

import errno
import json
import pathlib
import secrets
import shutil
import sys
import tempfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import podman as p  # noqa: E402
from http_get import get, until  # noqa: E402

charts = p.charts
IMAGE = {"repository": "localhost/sandbox-sidecar", "tag": "e2e"}
STATIC = "localhost/sandbox-sidecar:e2e-static"
WORKSPACE = "localhost/sandbox-sidecar:e2e"


@pytest.fixture(scope="session")
def scratch():
    """Not below /tmp: pods mount their own /tmp, and every uid must get in."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="sandbox-kube.", dir="/var/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


AGENT = {"image": WORKSPACE, "command": ["sleep", "infinity"]}
AGENT_METRICS = 9465


def start(name, values, scratch, **more):
    folder = scratch / name
    folder.mkdir()
    pod = p.Pod(name, values, folder, **more)
    try:
        pod.admin = f"http://{pod.ip()}:9464"
        until("alive", lambda: get(f"{pod.admin}/livez")[0] == 200)
    except AssertionError as error:
        error.add_note(pod.logs("sidecar"))
        pod.remove()
        raise
    return pod


@pytest.fixture(scope="session")
def beside_an_agent(scratch):
    pod = start("kube-agent", {"image": IMAGE, "agent": {**AGENT, "metricsPort": AGENT_METRICS}}, scratch)
    yield pod
    pod.remove()


@pytest.fixture(scope="session")
def without_a_shell(scratch):
    """An own tool image that holds no shell; the agent's has one."""
    values = {"image": {**IMAGE, "tag": "e2e-static"}, "tools": {"image": STATIC}, "agent": AGENT}
    pod = start("kube-byo", values, scratch)
    yield pod
    pod.remove()


@pytest.fixture(scope="session")
def of_another_uid(scratch):
    uid = 1000680000
    values = {"image": IMAGE, "passwd": False, "agent": AGENT,
              "podSecurityContext": {"runAsUser": uid, "runAsGroup": 0, "fsGroup": uid}}
    pod = start("kube-uid", values, scratch)
    yield pod
    pod.remove()


@pytest.fixture(scope="session")
def behind_a_service(scratch):
    """A platform's: no agent in the pod, tokens of a Secret."""
    token, other = secrets.token_hex(32), secrets.token_hex(32)
    values = {"image": IMAGE, "service": {"enabled": True}, "preflight": {"enabled": True},
              "auth": {"mode": "existingSecret", "existingSecret": {"name": "tokens", "agentKey": "agent"}}}
    pod = start("kube-service", values, scratch,
                secrets={"tokens": {"token": f"agent:{token}\nanother:{other}\n", "agent": f"{token}\n"}})
    yield pod
    pod.remove()


@pytest.fixture(scope="session")
def without_landlock(scratch):
    """A folder with RuntimeDefault as a runtime has it that knows no Landlock, such as gVisor."""
    folder = scratch / "profiles"
    folder.mkdir()
    profile = json.loads((p.SETTINGS / "runtime-default.json").read_text())
    for rule in profile["syscalls"]:
        rule["names"] = [name for name in rule["names"] if not name.startswith("landlock_")]
    refused = {"names": ["landlock_create_ruleset"], "action": "SCMP_ACT_ERRNO", "errnoRet": errno.ENOSYS}
    profile["syscalls"].append(refused)
    (folder / "runtime-default.json").write_text(json.dumps(profile))
    return folder
