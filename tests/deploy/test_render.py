"""Every ci values file lints, renders the same twice, and renders to what the API server takes."""

import re
import subprocess
import sys

import pytest

import charts
from validation import KUBERNETES, Refused, validate


def test_lint(case):
    chart, file, _ = case
    charts.run("helm", "lint", "--strict", chart, "--values", file)


def test_two_renders_are_equal(case):
    chart, file, _ = case
    first, second = (charts.template(chart, charts.load(file), text=True) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("version", KUBERNETES)
def test_objects_are_valid(case, version):
    _, _, docs = case
    for doc in docs:
        validate(doc, version)


@pytest.mark.parametrize("version", KUBERNETES)
def test_the_validator_refuses_what_is_wrong(version):
    docs = charts.template(charts.WORKSPACE, charts.load(charts.ci_files(charts.WORKSPACE)[0]))
    for wrong in [("spec", "replcas"), ("spec", "template", "spec", "hostNetwrk")]:
        [broken] = charts.kind(docs, "StatefulSet")
        with pytest.raises(Refused, match=wrong[-1]):
            validate(charts.with_value(broken, wrong, 1), version)


def test_names_are_unique_and_in_the_release_namespace(case):
    _, _, docs = case
    names = [(doc["kind"], doc["metadata"]["name"]) for doc in docs]
    assert len(names) == len(set(names))
    for doc in docs:
        assert doc["metadata"].get("namespace", charts.NAMESPACE) == charts.NAMESPACE


def test_nothing_asks_the_cluster_or_chance():
    """A render without a cluster is the render with one, and the same tomorrow."""
    functions = re.compile(r"\b(lookup|rand\w+|genCA|genSelfSignedCert|genSignedCert|genPrivateKey|uuidv4|now|htpasswd|"
                           r"bcrypt|Capabilities|getHostByName)\b")
    for chart in charts.CHARTS:
        for file in [*chart.glob("templates/**/*.yaml"), *chart.glob("templates/**/*.tpl")]:
            code = re.sub(r"\{\{-?\s*/\*.*?\*/\s*-?\}\}", "", file.read_text(), flags=re.S)
            actions = re.findall(r"\{\{.*?\}\}", re.sub(r'"(\\.|[^"\\])*"', '""', code), flags=re.S)
            assert not [action for action in actions if functions.search(action)], file


def test_the_readmes_are_those_that_the_values_make():
    script = charts.ROOT / "scripts" / "chart-docs.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert not done.returncode, done.stderr


def test_the_versions_are_those_of_the_workspace():
    cargo = (charts.ROOT / "Cargo.toml").read_text()
    version = re.search(r'^version = "(.*)"', cargo, re.M)[1]
    for chart in charts.CHARTS:
        assert charts.load(chart / "Chart.yaml")["appVersion"] == version, chart
