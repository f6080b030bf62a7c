"""Every ci values file of every chart, rendered once for all tests."""

import functools

import pytest

import charts


@functools.cache
def rendered(chart, file):
    return charts.template(chart, charts.load(file))


CASES = [(chart, file) for chart in charts.CHARTS for file in charts.ci_files(chart)]


@pytest.fixture(params=CASES, ids=[f"{chart.name}-{file.stem}" for chart, file in CASES])
def case(request):
    """chart, values file, objects."""
    chart, file = request.param
    return chart, file, rendered(chart, file)


WORKSPACES = charts.ci_files(charts.WORKSPACE)


@pytest.fixture(params=WORKSPACES, ids=[file.stem for file in WORKSPACES])
def workspace(request):
    """Values with the defaults under them, and objects, of the chart of the workspace pod."""
    values = charts.merged(charts.WORKSPACE, charts.load(request.param))
    return values, rendered(charts.WORKSPACE, request.param)
