"""A real Prometheus with the monitoring chart's rules, and the labels that its PodMonitor gives."""

import contextlib
import datetime
import json
import socket
import subprocess

import yaml

import podman as p
from http_get import get, query, until

charts = p.charts

# What a machine that is busy with other things raises too. A test of their own limits the CPU.
SLOW = ["SandboxLaunchLatencyFast", "SandboxLaunchLatencySlow"]


def live_rules(disabled):
    """The chart's groups, evaluated each second and without `for`: how long a thing must last, promtool tests."""
    [rule] = charts.kind(charts.template(charts.MONITORING, {"alerts": {"disabled": disabled}}), "PrometheusRule")
    lasting = ("for", "keep_firing_for")
    return [{**group, "interval": "1s", "rules": [{key: value for key, value in rule.items() if key not in lasting}
                                                  for rule in group["rules"]]} for group in rule["spec"]["groups"]]


class Prometheus:
    def __init__(self, base, groups, targets):
        self.base, self.targets = base, targets
        self.names = {rule.get("alert") or rule["record"] for group in groups for rule in group["rules"]}

    def query(self, expr):
        return query(self.base, expr)

    def rules(self):
        return [rule for group in self.get("rules")["groups"] for rule in group["rules"]]

    def get(self, what):
        return json.loads(get(f"{self.base}/api/v1/{what}")[1])["data"]

    def firing(self):
        """The names of the alerts that fire now."""
        return {rule["name"] for rule in self.rules() if rule.get("alerts")}

    def settle(self):
        """Waits until all targets are scraped anew, and then all rules evaluated anew and without an error."""
        when = datetime.datetime.fromisoformat
        start = datetime.datetime.now(datetime.UTC)

        def scraped():
            targets = self.get("targets")["activeTargets"]
            return len(targets) == self.targets and all(when(target["lastScrape"]) > start for target in targets)

        until("a scrape of every target", scraped)
        then = datetime.datetime.now(datetime.UTC)

        def evaluated():
            rules = self.rules()
            return {rule["name"] for rule in rules} == self.names and all(
                rule["health"] == "ok" and when(rule["lastEvaluation"]) > then for rule in rules)

        until("every rule evaluated without an error", evaluated)


@contextlib.contextmanager
def scraping(folder, pods, disabled=SLOW):
    """`pods`: pod → {container: port}; `disabled`: the alerts to leave out."""
    groups = live_rules(list(disabled))
    targets = [{"targets": [f"{pod.ip()}:{port}"], "labels": {"namespace": "team", "pod": pod.name, "container": container}}
               for pod, ports in pods.items() for container, port in ports.items()]
    config = {"global": {"scrape_interval": "1s"}, "rule_files": ["rules.yaml"],
              "scrape_configs": [{"job_name": "sandbox-sidecar", "static_configs": targets}]}
    folder.mkdir()
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}))
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(["prometheus", f"--config.file={folder}/prometheus.yaml", f"--storage.tsdb.path={folder}/tsdb",
                                   f"--web.listen-address={address}"], stdout=log, stderr=log)
    try:
        prometheus = Prometheus(f"http://{address}", groups, len(targets))
        until("Prometheus", lambda: get(f"{prometheus.base}/-/ready")[0] == 200)
        prometheus.settle()
        yield prometheus
    finally:
        server.terminate()
        server.wait()
