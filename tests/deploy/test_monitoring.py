"""The monitoring chart: rules that promtool takes, alerts that fire on their fault alone, dashboards over real metrics."""

import json
import re

import pytest
import yaml

import charts
from charts import MONITORING, ROOT, WORKSPACE

LABELS = 'namespace="team",pod="w-sandbox-sidecar-0"'
DEFAULTS = charts.template(MONITORING, {})
ALERTS_FILE = yaml.safe_load((ROOT / "tests/deploy/alerts.yaml").read_text())
EVALUATED_AT = "8h"


def groups(docs):
    [rule] = charts.kind(docs, "PrometheusRule")
    return rule["spec"]["groups"]


def alerts(docs):
    return [rule for group in groups(docs) for rule in group["rules"] if "alert" in rule]


def dashboards():
    return {path.stem: json.loads(path.read_text()) for path in sorted((MONITORING / "dashboards").glob("*.json"))}


def panels():
    for name, board in dashboards().items():
        for panel in board["panels"]:
            if panel["type"] != "row":
                yield name, panel


def write(path, value):
    path.write_text(yaml.safe_dump(value))
    return path


def test_promtool_takes_the_rules(case, tmp_path):
    chart, _, docs = case
    if chart == MONITORING and charts.kind(docs, "PrometheusRule"):
        charts.run("promtool", "check", "rules", write(tmp_path / "rules.yaml", {"groups": groups(docs)}))


def with_labels(series):
    name, _, labels = series.partition("{")
    return f"{name}{{{LABELS}{',' + labels if labels else '}'}"


FIRING = 'ALERTS{alertstate="firing"}'


def names_of(series, names):
    """At the end, these alerts have one of these series, and no others."""
    return {"expr": f"count by (alertname) ({series})", "eval_time": EVALUATED_AT,
            "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(names)]}


def promtool_case(case):
    series = ALERTS_FILE["healthy"] | case.get("series", {})
    return {
        "interval": "1m",
        "input_series": [{"series": with_labels(key), "values": str(values)} for key, values in series.items()],
        "promql_expr_test": [names_of(FIRING, case["fires"]),
                             names_of(f"last_over_time({FIRING}[1d])", case["fires"] + case.get("fired", []))],
    }


def promtool_test(tmp_path, cases):
    write(tmp_path / "rules.yaml", {"groups": groups(DEFAULTS)})
    tests = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [promtool_case(case) for case in cases]}
    charts.run("promtool", "test", "rules", write(tmp_path / "test.yaml", tests))


@pytest.mark.parametrize("case", ALERTS_FILE["cases"], ids=lambda case: case["name"])
def test_a_fault_fires_its_alerts_and_no_other(case, tmp_path):
    for series in case.get("series", {}):
        assert series in ALERTS_FILE["healthy"] or series.endswith('state="unsupported"}'), series
    promtool_test(tmp_path, [case])


def test_an_alert_that_does_not_fire_is_noticed(tmp_path):
    with pytest.raises(charts.HelmError, match="SandboxOomLoop"):
        promtool_test(tmp_path, [{"fires": ["SandboxOomLoop"]}])


def test_an_alert_that_fired_on_the_way_is_noticed(tmp_path):
    """Processes were ended for lack of memory, and hours ago."""
    passing = {"series": {"sidecar_oom_kills_total": "0+0x100 1 2 3 4 5+0x376"}, "fires": []}
    promtool_test(tmp_path, [passing | {"fired": ["SandboxOomLoop"]}])
    with pytest.raises(charts.HelmError, match="SandboxOomLoop"):
        promtool_test(tmp_path, [passing])


def test_what_is_counted_over_all_workspaces_names_the_pods_where_it_was(tmp_path):
    """The objective is that of all; who is paged looks at one."""
    # Launches by the minute that failed, and that were slow, of 100.
    pods = {'namespace="team",pod="a-0"': (1, 1), 'namespace="other",pod="b-0"': (2, 0), 'namespace="team",pod="c-0"': (0, 0)}
    series = {}
    for pod, (failed, slow) in pods.items():
        series[f'sidecar_launches_total{{{pod},outcome="server_error"}}'] = failed
        series[f'sidecar_launches_total{{{pod},outcome="started"}}'] = 100
        series[f"sidecar_launch_duration_seconds_count{{{pod}}}"] = 100
        series[f'sidecar_launch_duration_seconds_bucket{{{pod},le="0.25"}}'] = 100 - slow
    texts = {rule["alert"]: rule["annotations"]["description"] for rule in alerts(DEFAULTS)}
    # The hours that each looks back, no more than there are.
    hours = {"LaunchErrorsFast": 1, "LaunchErrorsSlow": 6, "LaunchErrorsTicket": 8, "LaunchErrorsTrend": 8,
             "LaunchLatencyFast": 1, "LaunchLatencySlow": 6}
    assert {name for name, text in texts.items() if "error budget" in text} == {f"Sandbox{name}" for name in hours}
    rules, expected = [], []
    for name, past in hours.items():
        [_, most] = texts[f"Sandbox{name}"].split("Most of them: ")
        rules.append({"alert": name, "expr": "vector(1)", "annotations": {"most": most}})
        told = f"other/b-0 ({past * 120}), team/a-0 ({past * 60})." if "Errors" in name else f"team/a-0 ({past * 60})."
        expected.append({"eval_time": EVALUATED_AT, "alertname": name, "exp_alerts": [{"exp_annotations": {"most": told}}]})
    write(tmp_path / "rules.yaml", {"groups": [{"name": "texts", "rules": rules}]})
    charts.run("promtool", "test", "rules", write(tmp_path / "test.yaml", {"rule_files": ["rules.yaml"], "tests": [{
        "interval": "1m", "input_series": [{"series": key, "values": f"0+{step}x480"} for key, step in series.items()],
        "alert_rule_test": expected}]}))


def test_what_an_alert_says_of_its_time_arrives():
    times = {rule["alert"]: {key: rule[key] for key in ("for", "keep_firing_for") if key in rule} for rule in alerts(DEFAULTS)}
    # It is seen for a scrape or two at a time, where no launch can be confined.
    assert times["SandboxEnforcementDegraded"] == {"keep_firing_for": "10m"}
    assert times["SandboxTargetAbsent"] == {"for": "5m"}


def test_every_alert_has_a_fault_and_a_runbook():
    names = {alert["alert"] for alert in alerts(DEFAULTS)}
    assert names == {name for case in ALERTS_FILE["cases"] for name in case["fires"]}
    headings = re.findall(r"^## (\w+)$", (ROOT / "docs/runbooks.md").read_text(), re.M)
    assert sorted(headings) == sorted(names)
    for alert in alerts(DEFAULTS):
        assert alert["labels"]["severity"] in {"critical", "warning"}
        assert alert["annotations"]["summary"] and alert["annotations"]["description"]


def test_a_runbook_url_is_a_link_or_is_not_there():
    assert not [alert for alert in alerts(DEFAULTS) if "runbook_url" in alert["annotations"]]
    base = "https://wiki.example.com/sandbox"
    linked = alerts(charts.template(MONITORING, {"rules": {"runbookBaseUrl": base}}))
    assert [alert["annotations"]["runbook_url"] for alert in linked] == [f"{base}#{a['alert'].lower()}" for a in alerts(DEFAULTS)]
    for wrong in ("docs/runbooks.md", "wiki.example.com/sandbox", f"{base}#alerts"):
        with pytest.raises(charts.HelmError, match="runbookBaseUrl"):
            charts.template(MONITORING, {"rules": {"runbookBaseUrl": wrong}})


def test_a_disabled_alert_is_left_out():
    docs = charts.template(MONITORING, {"alerts": {"disabled": ["SandboxOomLoop"]}})
    left = {alert["alert"] for alert in alerts(docs)}
    assert left == {alert["alert"] for alert in alerts(DEFAULTS)} - {"SandboxOomLoop"}


METRIC = re.compile(r"(?<![\w:])(?:sidecar|agent_client|process)_\w+(?![\w:])")


def documented():
    """name → type, labels."""
    # The server's, and the client's.
    docs = "".join((ROOT / "docs" / name).read_text() for name in ("metrics.md", "agent-client.md"))
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.*?) \|", docs, re.M)
    return {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}


def known(metrics):
    """The names of the series that these metrics make."""
    for name, (kind, _) in metrics.items():
        yield from [f"{name}_bucket", f"{name}_sum", f"{name}_count"] if kind == "histogram" else [name]


def expressions():
    for name, panel in panels():
        for target in panel["targets"]:
            yield f"{name}: {panel['title']}", target["expr"]
    for group in groups(DEFAULTS):
        for rule in group["rules"]:
            yield rule.get("alert") or rule["record"], rule["expr"]


def test_every_metric_that_is_asked_for_is_documented():
    names = set(known(documented()))
    asked = 0
    for where, expr in expressions():
        found = set(METRIC.findall(expr))
        assert found <= names, f"{where}: {found - names}"
        asked += len(found)
    assert asked > 50


def test_every_label_that_is_asked_for_is_documented():
    metrics = documented()
    added = {"namespace", "pod", "job", "container", "le"}
    for where, expr in expressions():
        found = METRIC.findall(expr)
        labels = set(re.findall(r'(\w+)(?:=~|!~|!=|=)"', expr))
        for inside in re.findall(r"by \(([^)]*)\)", expr):
            labels |= {label.strip() for label in inside.split(",")}
        bases = [re.sub(r"_(bucket|sum|count)$", "", name) for name in found]
        had = added.union(*(metrics.get(name, metrics.get(base, ("", set())))[1] for name, base in zip(found, bases)))
        if found:
            assert labels <= had, f"{where}: {labels - had}"


def test_the_slow_threshold_is_a_bucket():
    [expr] = {rule["expr"] for group in groups(DEFAULTS) for rule in group["rules"]
              if rule.get("record") == "sidecar:launch_slow:ratio_rate5m"}
    [threshold] = re.findall(r'le="([\d.]+)"', expr)
    text = "".join(path.read_text() for path in (ROOT / "sidecar/src").rglob("*.rs"))
    buckets = re.search(r"LAUNCH\w*: [^=]*= &?\[([^\]]*)\]", text)[1]
    schema = json.loads((MONITORING / "values.schema.json").read_text())
    allowed = schema["properties"]["slo"]["properties"]["launchLatency"]["properties"]["thresholdSeconds"]["enum"]
    assert {float(value) for value in [threshold, *allowed]} <= {float(v) for v in buckets.split(",") if v.strip()}


def test_dashboards_are_whole():
    boards = dashboards()
    assert boards.keys() == {"overview", "agent"}
    assert len({board["uid"] for board in boards.values()}) == len(boards)
    for board in boards.values():
        ids = [panel["id"] for panel in board["panels"]]
        assert len(ids) == len(set(ids))
        variables = {v["name"] for v in board["templating"]["list"]}
        used = set(re.findall(r"\$\{?(\w+)\}?", json.dumps([p.get("targets") for p in board["panels"]])))
        assert used - {"__rate_interval"} <= variables == {"datasource", "namespace", "pod"}
    for name, panel in panels():
        where = f"{name}: {panel['title']}"
        assert panel["fieldConfig"]["defaults"]["unit"], where
        assert panel["description"], where
        assert panel["datasource"]["uid"] == "${datasource}", where
        for target in panel["targets"]:
            assert "[5m]" not in target["expr"] and "[1m]" not in target["expr"], where


def test_dashboards_arrive_as_they_are():
    files = {path.name: path.read_text() for path in (MONITORING / "dashboards").glob("*.json")}
    maps = charts.kind(DEFAULTS, "ConfigMap")
    assert len(maps) == len(files)
    for doc in maps:
        [(name, text)] = doc["data"].items()
        assert json.loads(text) == json.loads(files[name.removeprefix("sandbox-sidecar-")])
        assert doc["metadata"]["labels"]["grafana_dashboard"] == "1"


def test_the_monitor_finds_the_pods_of_the_workspace_chart():
    [monitor] = charts.kind(DEFAULTS, "PodMonitor")
    docs = charts.template(WORKSPACE, charts.load(WORKSPACE / "ci/everything-values.yaml"))
    metadata, spec = charts.workspace_pod(docs)
    assert monitor["spec"]["selector"]["matchLabels"].items() <= metadata["labels"].items()
    names = {port["name"] for c in charts.containers(spec) for port in c.get("ports", [])}
    asked = {endpoint["port"] for endpoint in monitor["spec"]["podMetricsEndpoints"]}
    assert asked == names - {"api"}
    [serving] = [c["name"] for c in charts.containers(spec) if "admin" in {port["name"] for port in c.get("ports", [])}]
    [absent] = [alert["expr"] for alert in alerts(DEFAULTS) if alert["alert"] == "SandboxTargetAbsent"]
    assert absent.count(f'container="{serving}"') == absent.count("up{")
    job = metadata["labels"][monitor["spec"]["jobLabel"]]
    assert all(f'job="{job}"' in expr for where, expr in expressions() if "job=" in expr)
