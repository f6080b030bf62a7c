"""A small agent: asks a model for a command, runs it in a sandbox sidecar, shows it what came of it.

    agent.py ws://HOST:PORT TOKEN_FILE

The only library is websocket-client (Debian: python3-websocket; PyPI: websocket-client). Put your model into ask().
"""
import base64
import json
import sys

import websocket


def ask(transcript):
    """Your model: the next command, or None. This one has made up its mind already."""
    plan = ["uname -s; echo note > note.txt", "cat note.txt; exit 3"]
    return plan[len(transcript)] if len(transcript) < len(plan) else None


url, token_file = sys.argv[1:]
token = open(token_file).read().strip()
socket = websocket.create_connection(url, header=[f"Authorization: Bearer {token}"], suppress_origin=True)
send = lambda **message: socket.send(json.dumps(message))
send(id=0, method="initialize", params={"clientName": "agent.py"})
cwd = json.loads(socket.recv())["result"]["environmentInfo"]["cwd"]
send(method="initialized", params={})

transcript = []
while command := ask(transcript):
    name, output = f"turn-{len(transcript)}", b""
    send(id=name, method="process/start", params={
        "processId": name, "argv": ["sh", "-c", command], "cwd": cwd, "env": {}, "envPolicy": {"inherit": "core"}})
    while True:
        message = json.loads(socket.recv())
        params = message.get("params", {})
        if "error" in message:
            sys.exit(message["error"]["message"])
        elif message.get("method") == "process/output":
            output += base64.b64decode(params["chunk"])
        elif message.get("method") == "process/exited":
            code = params["exitCode"]
        elif message.get("method") == "process/closed":
            break
    transcript.append((command, code, output.decode(errors="replace")))
    print(f"$ {command}\n{transcript[-1][2]}[exit code {code}]")
socket.close()
