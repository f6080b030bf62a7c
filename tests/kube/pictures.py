"""Draws a dashboard's panels from a Prometheus: the same queries, by matplotlib; not a Grafana screenshot."""

import json
import math
import re
import time
import urllib.parse

from http_get import get, query

COLUMNS = 24
# Seconds that are drawn, and how many series are named in a legend: the largest.
SPAN = 90
LEGEND = 6


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
        for size, name in ((1, "s"), (1e-3, "ms"), (1e-6, "µs")):
            if value >= size:
                return f"{value / size:.3g} {name}"
        return "0"
    if unit in ("bytes", "Bps"):
        for size, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B")):
            if value >= size:
                return f"{value / size:.4g} {name}" + ("/s" if unit == "Bps" else "")
    return f"{value:.3g}" + ("/s" if unit == "reqps" and value else "")


def lines(axes, base, panel, concrete):
    unit = panel["fieldConfig"]["defaults"]["unit"]
    drawn = []
    for target in panel["targets"]:
        for series in series_over_time(base, concrete(target["expr"])):
            points = [(at, float(value)) for at, value in series["values"] if math.isfinite(float(value))]
            if points:
                drawn.append((max(value for _, value in points), legend(target, series["metric"]), points))
    drawn.sort(key=lambda one: -one[0])
    end = max(at for _, _, points in drawn for at, _ in points)
    for number, (_, name, points) in enumerate(drawn):
        label = name if number < LEGEND else "_"
        axes.plot([at - end for at, _ in points], [value for _, value in points], linewidth=1.2, label=label)
    if len(drawn) > LEGEND:
        axes.plot([], [], " ", label=f"and {len(drawn) - LEGEND} more")
    axes.set_ylim(0, (drawn[0][0] or 1) * 1.5)
    axes.set_xlim(-SPAN, 0)
    axes.yaxis.set_major_formatter(lambda value, _: human(value, unit))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0f} s")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=6, loc="upper left", ncols=2, framealpha=0.8)


def table(axes, base, panel, concrete):
    rows = {}
    for target in panel["targets"]:
        for series in query(base, concrete(target["expr"])):
            labels = {key: value for key, value in series["metric"].items() if key not in ("namespace", "pod")}
            rows[" ".join(labels.values())] = series["value"][1]
    text = "\n".join(f"{name}: {value}" for name, value in rows.items())
    axes.text(0.02, 0.95, text, fontsize=7, va="top", family="monospace")
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
    figure = pyplot.figure(figsize=(15, height * 0.32))
    grid = figure.add_gridspec(height, COLUMNS, hspace=2.2, wspace=6, left=0.05, right=0.99, top=0.98, bottom=0.01)
    for panel in panels:
        at = panel["gridPos"]
        axes = figure.add_subplot(grid[at["y"] : at["y"] + max(at["h"] - 1, 1), at["x"] : at["x"] + at["w"]])
        if panel["type"] == "row":
            axes.text(0, 0.2, panel["title"], fontsize=12, weight="bold")
            axes.axis("off")
            continue
        axes.set_title(panel["title"], fontsize=9, loc="left")
        axes.tick_params(labelsize=7)
        {"timeseries": lines, "table": table, "stat": stat}[panel["type"]](axes, base, panel, concrete)
    title = f"{board['title']} (drawn from the scraped series of a test run; no Grafana screenshot)"
    figure.suptitle(title, fontsize=11, y=0.995)
    figure.savefig(file, dpi=110)
