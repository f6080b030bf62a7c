"""A real Prometheus, the chart's rules and dashboards, and the metrics of the pod."""

import json
import os

import pictures
import podman as p
from http_get import get, query, until

charts = p.charts
ROOT = p.ROOT
BAD_TOKEN = "0" * 64
# What needs the agent's client to serve metrics is another dashboard.
BOARD = ROOT / "deploy/helm/sandbox-sidecar-monitoring/dashboards/overview.json"


def activity(pod):
    """Something of everything that the dashboard shows."""
    pod.client("--", "sh", "-c", "seq 1 2000; echo x >&2")
    pod.client("-t", "--", "sh", "-c", "seq 1 10")
    pod.client("--", "no-such-program", check=False)
    pod.client("--", "sh", "-c", "cat /root/x", check=False)
    files = pod.connect(("fs/writeFile", {"path": "/workspace/by-file", "dataBase64": "eA=="}),
                        ("fs/readFile", {"path": "/workspace/by-file"}), ("fs/readFile", {"path": "/workspace/none"}))
    assert ["error" in answer for answer in files] == [False, False, False, True]


def panels():
    for panel in json.loads(BOARD.read_text())["panels"]:
        if panel["type"] != "row":
            yield panel["title"], [target["expr"] for target in panel["targets"]]


def concrete(expr):
    return expr.replace("$namespace", ".*").replace("$pod", ".*").replace("$__rate_interval", "1m")


def test_every_panel_shows_data(prometheus, beside_an_agent):
    activity(beside_an_agent)
    activity(beside_an_agent)
    until("a scrape", lambda: query(prometheus, 'sidecar_launches_total{outcome="started",tty="true"} > 0'))
    activity(beside_an_agent)
    seen = 0
    for title, exprs in panels():
        def shown():
            results = [query(prometheus, concrete(expr)) for expr in exprs]
            return any(series["value"][1] != "NaN" for result in results for series in result)

        until(f"data in the panel {title}", shown)
        seen += 1
    assert seen > 25
    if folder := os.environ.get("PICTURES"):
        for _ in range(10):
            activity(beside_an_agent)
        pictures.draw(prometheus, json.loads(BOARD.read_text()), concrete, f"{folder}/overview.png")


def test_every_rule_is_evaluated_and_a_healthy_run_fires_none(prometheus, rules):
    def groups():
        return json.loads(get(f"{prometheus}/api/v1/rules")[1])["data"]["groups"]

    def evaluated():
        return all(rule["health"] == "ok" for group in groups() for rule in group["rules"])

    until("every rule evaluated without an error", evaluated)
    names = {rule["name"] for group in groups() for rule in group["rules"]}
    assert names == {rule.get("alert") or rule["record"] for group in rules[0] for rule in group["rules"]}
    for group in groups():
        for rule in group["rules"]:
            assert not rule.get("alerts"), rule


def test_refused_clients_raise_their_alert(prometheus, beside_an_agent, rules):
    [expr] = [rule["expr"] for group in rules[0] for rule in group["rules"] if rule.get("alert") == "SandboxAuthFailures"]
    assert not query(prometheus, expr), "not before"
    pod = beside_an_agent
    pod.exec("agent", "sh", "-c", f"echo {BAD_TOKEN} > /tmp/bad")
    for _ in range(15):
        assert pod.client("--token-file", "/tmp/bad", "--", "true", check=False).returncode == 125
    until("the alert", lambda: query(prometheus, 'ALERTS{alertname="SandboxAuthFailures",alertstate="firing"}'))


def test_every_documented_metric_is_scraped(prometheus):
    rows = [line.split("`")[1] for line in (ROOT / "docs/metrics.md").read_text().splitlines() if line.startswith("| `")]
    mine = [name for name in rows if not name.startswith("agent_client_")]
    assert len(mine) > 30
    for name in mine:
        found = query(prometheus, f'count({{__name__=~"{name}(_count)?",job="sandbox-sidecar"}})')
        assert found, name


def test_a_pod_that_goes_raises_its_alert(prometheus, beside_an_agent):
    p.podman("stop", "--time", "20", beside_an_agent.container("sidecar"))
    until("the alert is pending", lambda: query(prometheus, 'ALERTS{alertname="SandboxTargetAbsent"}'))
    p.podman("start", beside_an_agent.container("sidecar"))
    until("it is over", lambda: not query(prometheus, 'ALERTS{alertname="SandboxTargetAbsent"}'))
