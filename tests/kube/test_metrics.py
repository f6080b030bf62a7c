"""A real Prometheus, the chart's rules and dashboards, and the metrics of the pod and of its agent's client."""

import json
import os
import re

import pytest

import pictures
import podman as p
from conftest import AGENT_METRICS
from http_get import get, until
from prometheus import scraping

ROOT = p.ROOT
BOARDS = {path.stem: json.loads(path.read_text())
          for path in (ROOT / "deploy/helm/sandbox-sidecar-monitoring/dashboards").glob("*.json")}


@pytest.fixture(scope="module")
def gateway(beside_an_agent):
    """The stock CLI's, which serves the agent's metrics while it runs."""
    with beside_an_agent.gateway() as running:
        yield running


@pytest.fixture(scope="module")
def prometheus(scratch, beside_an_agent, gateway):
    with scraping(scratch / "prometheus", {beside_an_agent: {"sidecar": 9464, "agent": AGENT_METRICS}}) as running:
        yield running


def activity(pod, gateway):
    """Something of everything that the dashboards show."""
    pod.client("--", "sh", "-c", "seq 1 2000; echo x >&2")
    pod.client("--", "sh", "-c", "cat /root/x", check=False)
    pod.client("--token-file", "/etc/hostname", "--", "true", check=False)
    assert gateway.run("plain", "sh", "-c", "seq 1 2000; sleep 1000 &")[0] == 0
    assert gateway.run("terminal", "sh", "-c", "seq 1 10; sleep 0.2", tty=True)[0] == 0
    assert "error" in gateway.start("missing", "no-such-program")
    files = [gateway.call("fs/writeFile", path="/workspace/by-file", dataBase64="eA=="),
             gateway.call("fs/readFile", path="/workspace/by-file"), gateway.call("fs/readFile", path="/workspace/none")]
    assert ["error" in answer for answer in files] == [False, False, True]


def concrete(expr):
    return expr.replace("$namespace", ".*").replace("$pod", ".*").replace("$__rate_interval", "1m")


PANELS = [(name, panel) for name, board in sorted(BOARDS.items()) for panel in board["panels"] if panel["type"] != "row"]


@pytest.fixture(scope="module")
def active(prometheus, beside_an_agent, gateway):
    """After the journey, with scrapes before it, in it and behind it."""
    activity(beside_an_agent, gateway)
    until("a scrape", lambda: prometheus.query('sidecar_launches_total{outcome="started",tty="true"} > 0'))
    activity(beside_an_agent, gateway)
    return prometheus


@pytest.mark.parametrize(("board", "panel"), PANELS, ids=[f"{name}: {panel['title']}" for name, panel in PANELS])
def test_every_query_of_every_panel_shows_data(active, board, panel):
    for target in panel["targets"]:
        until(f"data of {target['expr']}",
              lambda: any(series["value"][1] != "NaN" for series in active.query(concrete(target["expr"]))))


def test_every_recording_rule_has_a_value(active):
    records = [name for name in active.names if ":" in name]
    assert len(records) > 10
    for name in records:
        until(name, lambda: active.query(name))


def test_a_healthy_run_fires_no_alert(active):
    active.settle()
    assert active.firing() == set()


if folder := os.environ.get("PICTURES"):

    def test_pictures(active, beside_an_agent, gateway):
        """For the docs: `make pictures`."""
        for _ in range(12):
            activity(beside_an_agent, gateway)
        for name, board in BOARDS.items():
            pictures.draw(active.base, board, concrete, f"{folder}/{name}.png")


def documented(file):
    return set(re.findall(r"^\| `(\w+)` \| (?:counter|gauge|histogram) \|", (ROOT / "docs" / file).read_text(), re.M))


@pytest.mark.parametrize(("file", "port"), [("metrics.md", 9464), ("agent-client.md", AGENT_METRICS)])
def test_what_is_scraped_is_what_is_documented(active, beside_an_agent, file, port):
    status, text = get(f"http://{beside_an_agent.ip()}:{port}/metrics")
    families = re.findall(r"^# TYPE (\w+) \w+$", text, re.M)
    # Counters' families have no suffix in OpenMetrics.
    assert status == 200 and set(families) == documented(file)
    for name in families:
        assert active.query(f'count({{__name__=~"{name}(_count)?"}})'), name
