"""The pods of the tests, and the Prometheus that scrapes them."""

import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile

import pytest
import yaml

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


def start(name, values, scratch):
    folder = scratch / name
    folder.mkdir()
    pod = p.Pod(name, values, folder)
    try:
        admin = f"http://{pod.ip()}:9464"
        until("ready", lambda: get(f"{admin}/readyz")[0] == 200)
    except AssertionError as error:
        error.add_note(pod.logs("sidecar"))
        pod.remove()
        raise
    pod.admin = admin
    return pod


@pytest.fixture(scope="session")
def beside_an_agent(scratch):
    values = {"image": IMAGE, "agent": {"image": WORKSPACE, "command": ["sleep", "infinity"]}}
    pod = start("kube-agent", values, scratch)
    yield pod
    pod.remove()


@pytest.fixture(scope="session")
def without_a_shell(scratch):
    """An own tool image that holds no shell; the agent's has one."""
    values = {"image": {**IMAGE, "tag": "e2e-static"}, "tools": {"image": STATIC},
              "agent": {"image": WORKSPACE, "command": ["sleep", "infinity"]}}
    pod = start("kube-byo", values, scratch)
    yield pod
    pod.remove()


@pytest.fixture(scope="session")
def of_another_uid(scratch):
    uid = 1000680000
    values = {"image": IMAGE, "passwd": False, "agent": {"image": WORKSPACE, "command": ["sleep", "infinity"]},
              "podSecurityContext": {"runAsUser": uid, "runAsGroup": 0, "fsGroup": uid}}
    pod = start("kube-uid", values, scratch)
    yield pod
    pod.remove()


@pytest.fixture(scope="session")
def rules(scratch):
    [rule] = charts.kind(charts.template(charts.MONITORING, {}), "PrometheusRule")
    file = scratch / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{**group, "interval": "1s"} for group in rule["spec"]["groups"]]}))
    return rule["spec"]["groups"], file


@pytest.fixture(scope="session")
def prometheus(scratch, rules, beside_an_agent):
    """A real Prometheus with the chart's rules, and the labels that the PodMonitor gives."""
    pod = beside_an_agent
    target = {"targets": [pod.admin.removeprefix("http://")],
              "labels": {"namespace": "team", "pod": pod.name, "container": "sidecar"}}
    config = {"global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "rule_files": [str(rules[1])],
              "scrape_configs": [{"job_name": "sandbox-sidecar", "static_configs": [target]}]}
    file = scratch / "prometheus.yaml"
    file.write_text(yaml.safe_dump(config))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    log = (scratch / "prometheus.log").open("w")
    server = subprocess.Popen(["prometheus", f"--config.file={file}", f"--storage.tsdb.path={scratch}/tsdb",
                               f"--web.listen-address={address}"], stdout=log, stderr=log)
    base = f"http://{address}"
    until("Prometheus", lambda: get(f"{base}/-/ready")[0] == 200)
    yield base
    server.terminate()
    server.wait()
