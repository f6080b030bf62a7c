"""Each fault that can be made here raises its own alert and no other."""

import os

import pytest

import podman as p
from conftest import AGENT, IMAGE, start
from http_get import get, until
from prometheus import SLOW, scraping

BURN = {"SandboxLaunchErrorsFast", "SandboxLaunchErrorsSlow", "SandboxLaunchErrorsTicket", "SandboxLaunchErrorsTrend"}
SIZES = {"workspace": "32m", "audit": "1m"}


@pytest.fixture(scope="module")
def faulty(scratch):
    """A small workspace: few processes, little memory, volumes that are soon full."""
    values = {
        "image": IMAGE, "agent": AGENT,
        "extraVolumes": [{"name": "audit", "emptyDir": {}}],
        "sidecar": {
            "extraVolumeMounts": [{"name": "audit", "mountPath": "/audit"}],
            "resources": {"limits": {"memory": "256Mi"}},
            # The kernel is to end what needs too much, before the sidecar does.
            "config": {"limits": {"processes": 4}, "audit": {"sink": "file:/audit/log"}, "memoryWatch": {"percent": 0}},
        },
    }
    pod = start("kube-faulty", values, scratch, sizes=SIZES)
    yield pod
    pod.remove()


def raises(scratch, pod, fault, *alerts, disabled=SLOW):
    """`fault` brings the firing alerts from none to these."""
    folder = scratch / os.environ["PYTEST_CURRENT_TEST"].split("::")[-1].split(" ")[0]
    with scraping(folder, {pod: {"sidecar": 9464}}, disabled) as prometheus:
        assert prometheus.firing() == set(), "before the fault"
        fault(prometheus)
        until(f"{alerts}", lambda: prometheus.firing() == set(alerts))


def test_wrong_tokens(scratch, faulty):
    def guess(_):
        faulty.exec("agent", "sh", "-c", f"echo {'0' * 64} > /tmp/bad")
        for _ in range(15):
            assert faulty.client("--token-file", "/tmp/bad", "--", "true", check=False).returncode == 125

    raises(scratch, faulty, guess, "SandboxAuthFailures")


def test_too_many_processes(scratch, faulty):
    def launch(_):
        with faulty.connect() as outside:
            answers = [outside.start(f"p{number}", "sleep", "1000") for number in range(24)]
        assert [answer.get("error", {}).get("code") for answer in answers] == [None] * 4 + [-32011] * 20

    # What a limit refuses does not start either, and is paid from the error budget.
    raises(scratch, faulty, launch, "SandboxAtLimit", *BURN)


def test_too_little_memory(scratch, faulty):
    def build(_):
        for _ in range(5):
            assert faulty.client("--", "python3", "-c", "len(bytearray(2**30))", check=False).returncode

    raises(scratch, faulty, build, "SandboxOomLoop")


def test_the_largest_launch_goes_before_the_kernel_takes_one(scratch):
    """The watch over the container's memory, by the limit that the kernel holds it to."""
    config = {"memoryWatch": {"percent": 80, "intervalMs": 100}}
    values = {"image": IMAGE, "agent": AGENT, "sidecar": {"resources": {"limits": {"memory": "256Mi"}}, "config": config}}
    pod = start("kube-memory", values, scratch)
    try:
        with pod.connect() as session:
            [small, large] = [session.start(name, *argv)["result"]["processId"] for name, argv in {
                "small": ["sleep", "1000"],
                "large": ["python3", "-c", "import time\nkept = []\nwhile True: kept.append(bytearray(2**20)); time.sleep(0.02)"],
            }.items()]
            while (message := session.read())["method"] != "process/exited":
                pass
            ended = message["params"]
            assert (ended["processId"], ended["cause"], ended["exitCode"]) == (large, "oom", 137), ended
            states = {entry["processId"]: entry["state"] for entry in session.call("process/list")["result"]["processes"]}
            assert states[small] == "running", states
        _, metrics = get(f"{pod.admin}/metrics")
        assert f"\nsidecar_memory_limit_bytes {256 << 20}\n" in metrics and "\nsidecar_oom_kills_total 0\n" in metrics
    finally:
        pod.remove()


def test_an_audit_sink_that_is_full(scratch, faulty):
    def fill(_):
        faulty.exec("sidecar", "dd", "if=/dev/zero", "of=/audit/fill", "bs=4k", check=False)
        # Some records fit into the last page that the log has already.
        for _ in range(20):
            faulty.client("--", "true")

    try:
        raises(scratch, faulty, fill, "SandboxAuditLoss")
    finally:
        faulty.exec("sidecar", "rm", "-f", "/audit/fill")


def test_a_workspace_that_is_nearly_full(scratch, faulty):
    try:
        raises(scratch, faulty, lambda _: faulty.client("--", "sh", "-c", "head -c 31M /dev/zero > full"),
               "SandboxWorkspaceFull")
    finally:
        faulty.exec("agent", "rm", "-f", "/workspace/full")


def test_a_pod_that_goes(scratch, faulty):
    try:
        raises(scratch, faulty, lambda _: p.podman("stop", "--time", "20", faulty.container("sidecar")), "SandboxTargetAbsent")
    finally:
        p.podman("start", faulty.container("sidecar"))
        until("ready again", lambda: get(f"{faulty.admin}/readyz")[0] == 200)


def test_launches_that_are_slow(scratch, faulty):
    """A CPU that is given in crumbs."""
    def crawl(_):
        p.podman("update", "--cpus", "0.01", faulty.container("sidecar"))
        for _ in range(20):
            faulty.client("--", "true")

    try:
        raises(scratch, faulty, crawl, *SLOW, disabled=[])
    finally:
        p.podman("update", "--cpus", "2", faulty.container("sidecar"))


def test_a_node_without_landlock(scratch, without_landlock):
    pod = start("kube-degraded", {"image": IMAGE, "agent": AGENT}, scratch, profiles=without_landlock)
    try:
        with scraping(scratch / "degraded", {pod: {"sidecar": 9464}}) as prometheus:
            until("the alert alone", lambda: prometheus.firing() == {"SandboxEnforcementDegraded"})
        assert pod.client("--", "true", check=False).returncode, "and no command runs"
    finally:
        pod.remove()
