#!/usr/bin/env python3
"""Writes the seeds of a fuzz target: those of fuzz/seeds, and what the traces of the stock client hold."""

import json
import pathlib
import shutil
import sys

target, out = sys.argv[1], pathlib.Path(sys.argv[2])
root = pathlib.Path(__file__).parent.parent
out.mkdir(parents=True, exist_ok=True)
own = root / "fuzz/seeds" / target
if own.is_dir():
    shutil.copytree(own, out, dirs_exist_ok=True)


def put(name, texts):
    (out / name).write_text("\n".join(texts))


def sandboxes(value):
    """Every `sandbox` of a frame, however deep."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "sandbox" and inner:
                yield inner
            yield from sandboxes(inner)


for trace in sorted((root / "tests/e2e/traces").glob("*.jsonl")):
    frames = [json.loads(line) for line in trace.read_text().splitlines()]
    sent = [json.dumps(f["frame"]) for f in frames if f["from"] == "client"]
    received = [json.dumps(f["frame"]) for f in frames if f["from"] == "server"]
    name = trace.stem
    if target == "envelope":
        for number, text in enumerate(sent + received):
            put(f"{name}-{number}", [text])
    elif target == "lines":
        put(name, sent)
    elif target == "session":
        # The target does the handshake itself.
        put(name, sent[2:])
    elif target == "client":
        put(name, received)
    elif target == "policy":
        for number, sandbox in enumerate(s for f in frames for s in sandboxes(f["frame"])):
            put(f"{name}-{number}", [json.dumps(sandbox)])
for seed in (root / "fuzz/seeds/session").iterdir():
    if target == "lines":
        put(seed.name, [json.dumps({"id": 0, "method": "initialize", "params": {"clientName": "x"}}),
                        '{"method":"initialized"}', seed.read_text(errors="replace").replace("\x02", "\n")])
