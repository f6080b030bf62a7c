"""Somebody who follows a page of docs/ in a new container. What the info string of a fenced block means stands at the head of
tests/e2e/src/page.rs, whose reader is on this machine.
"""

import dataclasses
import io
import subprocess
import tarfile

import podman as p

HOME = "/home/agent"
CHECKOUT = f"{HOME}/sandbox-sidecar"
# No part of a checkout.
LEFT_OUT = {"./.git", "./target"}


def blocks(markdown):
    """The fenced blocks: info string and text."""
    found, text = [], None
    for line in markdown.splitlines():
        if line.startswith("```"):
            if text is None:
                info, text = line[3:].strip(), ""
            else:
                found.append((info, text))
                text = None
        elif text is not None:
            text += f"{line}\n"
    assert text is None, "a block has no end"
    return found


def assert_holds(stdout, expected):
    lines = iter(stdout.splitlines())
    for wanted in expected.splitlines():
        assert wanted in lines, f"{wanted!r} is not printed, or not in this order: {stdout}"


class Container:
    """As a restricted pod has it (scripts/containers.sh restricted): uid 65532, an empty home, no network but loopback."""

    def __init__(self, name, image, *command, flags=()):
        self.name = name
        p.podman("rm", "--force", "--time", "0", name, check=False)
        done = subprocess.run([p.ROOT / "scripts/containers.sh", "restricted", "runtime-default", "--detach", "--name", name,
                               *map(str, flags), image, *command], env=p.ENV, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr

    def __enter__(self):
        return self

    def __exit__(self, *_):
        p.podman("rm", "--force", "--time", "0", self.name, check=False)

    def exec(self, *command, check=True, **more):
        if "input" not in more:
            more["stdin"] = subprocess.DEVNULL
        return p.podman("exec", "--interactive", self.name, *command, check=check, **more)

    def holds(self, path):
        """The text of a file; None where there is no such file."""
        if self.exec("test", "-e", path, check=False).returncode:
            return None
        return self.exec("cat", path).stdout


@dataclasses.dataclass
class Reader:
    container: Container
    # What the page says → what is here.
    here: dict = dataclasses.field(default_factory=dict)
    # How long a script may take, in seconds.
    patience: float = 120

    def check_out(self):
        """The repository, as it is now."""
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            tar.add(p.ROOT, arcname=".", filter=lambda entry: None if entry.name in LEFT_OUT else entry)
        command = ["podman", "exec", "--interactive", self.container.name, "sh", "-c",
                   f"mkdir {CHECKOUT} && tar -x --no-same-owner -C {CHECKOUT}"]
        subprocess.run(command, env=p.ENV, input=archive.getvalue(), check=True, timeout=120)

    def script(self, text, check=True):
        """As in a terminal of the reader's, in the checkout."""
        done = self.container.exec("bash", "-c", f"cd {CHECKOUT} && exec bash -euc \"$1\"", "-", text, check=check,
                                   timeout=self.patience)
        # Shown where the test fails.
        print(text, done.stdout, done.stderr, sep="\n")
        return done

    def write(self, path, text, append=False):
        path = path.replace("~", HOME, 1)
        redirect = ">>" if append else ">"
        self.container.exec("sh", "-c", f'mkdir -p "$(dirname "$1")" && cat {redirect} "$1"', "-", path,
                            input=text.replace("~/", f"{HOME}/"))

    def follow(self, markdown, before=lambda script: None, after=lambda script, done: None):
        """Each marked block does what its word says; `before` and `after` hear of each script."""
        stdout, followed = "", 0
        for info, text in blocks(markdown):
            _, _, what = info.partition(" ")
            for on_the_page, here in self.here.items():
                text = text.replace(on_the_page, here)
            match what.partition("="):
                case ("", _, _):
                    continue
                case ("file", _, path):
                    self.write(path, text)
                case ("append", _, path):
                    self.write(path, text, append=True)
                case ("run" | "container", _, _):
                    before(text)
                    done = self.script(text)
                    after(text, done)
                    stdout = done.stdout
                case ("prints", _, _):
                    assert_holds(stdout, text)
                case _:
                    raise AssertionError(f"{what!r} means nothing; see the head of tests/e2e/src/page.rs")
            followed += 1
        assert followed, "the page has nothing to follow"
