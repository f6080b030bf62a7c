#!/usr/bin/env python3
"""A stand-in for kubectl in a container of the tests, where no API server is: `kubectl exec -i -n NAMESPACE POD -c CONTAINER
-- COMMAND…` becomes `podman exec -i` on the host.

Run as a program it is kubectl. It passes its own stdin, stdout and stderr to the host's side over the socket beside it, and
ends as the command ends.
"""

import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import threading

READER = "/opt/reader"
SOCKET = f"{READER}/kubectl.sock"


class ByPodman:
    """The host's side. `pods`: NAMESPACE/POD/CONTAINER → the podman container."""

    def __init__(self, path, pods, env):
        self.pods, self.env = pods, env
        # What it was asked for.
        self.asked = []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        pathlib.Path(path).chmod(0o666)
        self.listener.listen()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.run, args=[connection], daemon=True).start()

    def run(self, connection):
        with connection:
            data, streams, _, _ = socket.recv_fds(connection, 1 << 16, 3)
            arguments = json.loads(data)
            self.asked.append(arguments)
            match arguments:
                case ["exec", "-i", "-n", namespace, pod, "-c", container, "--", *command] if (
                        name := self.pods.get(f"{namespace}/{pod}/{container}")):
                    done = subprocess.run(["podman", "exec", "-i", name, *command], env=self.env, stdin=streams[0],
                                          stdout=streams[1], stderr=streams[2])
                    code = done.returncode
                case _:
                    os.write(streams[2], f"no such pod, or no such command: {arguments}\n".encode())
                    code = 1
            for stream in streams:
                os.close(stream)
            # Who was killed meanwhile does not listen any more.
            with contextlib.suppress(BrokenPipeError):
                connection.sendall(bytes([code]))

    def close(self):
        # close alone does not wake the thread that accepts.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def kubectl_in(folder, pods, env):
    """The program in a folder of the host's, with the host's side beside it: that side, and the flags of podman by which a container
    has the folder's programs on its PATH."""
    program = folder / "bin" / "kubectl"
    program.parent.mkdir(parents=True)
    program.write_text(pathlib.Path(__file__).read_text())
    program.chmod(0o755)
    flags = ["--volume", f"{folder}:{READER}:ro", "--env", f"PATH={READER}/bin:/usr/local/bin:/usr/bin:/bin"]
    return ByPodman(folder / "kubectl.sock", pods, env), flags


def main():
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(SOCKET)
        socket.send_fds(connection, [json.dumps(sys.argv[1:]).encode()], [0, 1, 2])
        code = connection.recv(1)
    sys.exit(code[0] if code else 1)


if __name__ == "__main__":
    main()
