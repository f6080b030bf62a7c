#!/usr/bin/env python3
"""Makes each chart's README.md from README.md.in and the `# --` comments of values.yaml; --check only compares.

Every value must have a comment, on the line above it. A map whose keys have their own comments needs none.
"""

import json
import pathlib
import re
import sys

import yaml

CHARTS = sorted((pathlib.Path(__file__).resolve().parents[1] / "deploy" / "helm").glob("*/Chart.yaml"))
MARK = "<!-- values -->"


def rows(text):
    """(dotted key, default, comment) of each commented key, in the file's order."""
    values = yaml.safe_load(text)
    path, comment = [], None
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith("# -- "):
            comment = stripped.removeprefix("# -- ")
            continue
        key = re.match(r"( *)(\w+):", line)
        if not key:
            if comment is not None:
                sys.exit(f"values.yaml:{number}: the comment above belongs to no key")
            continue
        depth = len(key[1]) // 2
        if path and path[-1] is None and depth >= len(path) - 1:
            continue  # Below a key that has its comment: part of its default.
        path = [*path[:depth], key[2]]
        if comment is None:
            place = values
            for part in path:
                place = place[part]
            if not isinstance(place, dict) or not place:
                sys.exit(f"values.yaml:{number}: {'.'.join(path)} has no comment")
            continue
        default = values
        for part in path:
            default = default[part]
        yield ".".join(path), default, comment
        comment = None
        path.append(None)


def table(text):
    out = ["| value | default | meaning |", "|---|---|---|"]
    for key, default, comment in rows(text):
        shown = json.dumps(default, ensure_ascii=False).replace("|", "\\|")
        out.append(f"| `{key}` | `{shown}` | {comment.replace('|', chr(92) + '|')} |")
    return "\n".join(out)


def main():
    stale = []
    for chart in CHARTS:
        folder = chart.parent
        source = (folder / "README.md.in").read_text()
        if MARK not in source:
            sys.exit(f"{folder / 'README.md.in'}: there is no {MARK}")
        text = source.replace(MARK, table((folder / "values.yaml").read_text()))
        readme = folder / "README.md"
        if "--check" not in sys.argv:
            readme.write_text(text)
        elif not readme.exists() or readme.read_text() != text:
            stale.append(str(readme))
    if stale:
        sys.exit(f"out of date: {', '.join(stale)}; run make chart-docs")


if __name__ == "__main__":
    main()
