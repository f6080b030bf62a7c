"""Draws a dashboard's panels from a Prometheus: a rendering of the same queries by matplotlib, not a Grafana screenshot."""

import datetime
import json
import math
import re
import time
import urllib.parse

from http_get import get, query

COLUMNS = 24
SPAN = 90


def series_over_time(base, expr):
    end = time.time()
    words = urllib.parse.urlencode({"query": expr, "start": end - SPAN, "end": end, "step": 1})
    return json.loads(get(f"{base}/api/v1/query_range?{words}")[1])["data"]["result"]


def legend(target, labels):
    text = re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), target["legendFormat"])
    return text.strip() or " ".join(labels.values())


def human(value, unit):
    if unit == "percentunit":
        return f"{value * 100:.1f} %"
    if unit == "s":
        return f"{value * 1000:.1f} ms" if value < 1 else f"{value:.1f} s"
    for size, name in ((2**30, "Gi"), (2**20, "Mi"), (2**10, "Ki")):
        if unit in ("bytes", "Bps") and value >= size:
            return f"{value / size:.1f} {name}B"
    return f"{value:.3g}"


def lines(axes, base, panel, concrete):
    unit = panel["fieldConfig"]["defaults"]["unit"]
    for target in panel["targets"]:
        for series in series_over_time(base, concrete(target["expr"])):
            points = [(datetime.datetime.fromtimestamp(at), float(value)) for at, value in series["values"]]
            points = [point for point in points if math.isfinite(point[1])]
            if points:
                axes.plot(*zip(*points), linewidth=1, label=legend(target, series["metric"]))
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(lambda value, _: human(value, unit))
    axes.xaxis.set_major_formatter(lambda value, _: "")
    axes.legend(fontsize=5, loc="upper left", ncols=2)


def table(axes, base, panel, concrete):
    rows = {}
    for target in panel["targets"]:
        for series in query(base, concrete(target["expr"])):
            labels = {key: value for key, value in series["metric"].items() if key not in ("namespace", "pod")}
            rows[" ".join(labels.values())] = series["value"][1]
    text = "\n".join(f"{name}: {value}" for name, value in rows.items())
    axes.text(0.02, 0.95, text, fontsize=6, va="top", family="monospace")
    axes.axis("off")


def stat(axes, base, panel, concrete):
    [series] = query(base, concrete(panel["targets"][0]["expr"]))
    axes.text(0.5, 0.5, human(float(series["value"][1]), panel["fieldConfig"]["defaults"]["unit"]), fontsize=18, ha="center")
    axes.axis("off")


def draw(base, board, concrete, file):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels = board["panels"]
    height = max(p["gridPos"]["y"] + p["gridPos"]["h"] for p in panels)
    figure = pyplot.figure(figsize=(15, height * 0.27))
    grid = figure.add_gridspec(height, COLUMNS, hspace=2.2, wspace=4, left=0.03, right=0.99, top=0.98, bottom=0.01)
    for panel in panels:
        at = panel["gridPos"]
        axes = figure.add_subplot(grid[at["y"] : at["y"] + max(at["h"] - 1, 1), at["x"] : at["x"] + at["w"]])
        if panel["type"] == "row":
            axes.text(0, 0.2, panel["title"], fontsize=10, weight="bold")
            axes.axis("off")
            continue
        axes.set_title(panel["title"], fontsize=7, loc="left")
        axes.tick_params(labelsize=5)
        {"timeseries": lines, "table": table, "stat": stat}[panel["type"]](axes, base, panel, concrete)
    figure.suptitle(f"{board['title']} (drawn from the scraped series of a test run; no Grafana screenshot)", fontsize=9, y=0.995)
    figure.savefig(file, dpi=110)
