"""The protocol by the line, over the stdin and stdout of a program."""

import base64
import json
import subprocess
import threading

GIVE_UP = 120


class Rpc:
    """One initialized session. A program that does not answer within GIVE_UP is ended, and the reading fails."""

    def __init__(self, command, env):
        self.program = subprocess.Popen(command, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)
        self.sent = 0
        self.hello = self.call("initialize", clientName="test")
        self.write({"method": "initialized"})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends the program; what it said on stderr."""
        try:
            return self.program.communicate(timeout=GIVE_UP)[1]
        finally:
            self.program.kill()

    def write(self, message):
        self.program.stdin.write(json.dumps(message) + "\n")
        self.program.stdin.flush()

    def read(self):
        timer = threading.Timer(GIVE_UP, self.program.kill)
        timer.start()
        line = self.program.stdout.readline()
        timer.cancel()
        if not line:
            raise EOFError(f"the program ended: {self.close()}")
        return json.loads(line)

    def call(self, method, **params):
        """The answer; notifications before it are passed over."""
        self.sent += 1
        self.write({"id": self.sent, "method": method, "params": params})
        while (message := self.read()).get("id") != self.sent:
            pass
        return message

    def start(self, name, *argv, tty=False):
        return self.call("process/start", processId=f"{name}-{self.sent}", argv=argv, cwd="file:///workspace", env={}, tty=tty,
                         envPolicy={"inherit": "core"})

    def run(self, name, *argv, tty=False):
        """Exit code and output of a command."""
        answer = self.start(name, *argv, tty=tty)
        assert "result" in answer, answer
        output = b""
        while True:
            message = self.read()
            params = message.get("params", {})
            match message.get("method"):
                case "process/output":
                    output += base64.b64decode(params["chunk"])
                case "process/exited":
                    code = params["exitCode"]
                case "process/closed":
                    return code, output.decode()
