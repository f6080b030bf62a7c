# python os: openpty and a pty.spawn, if_nameindex, pidfd_open, eventfd, inotify, resource limits, affinity
import ctypes
import os
import pty
import resource
import select
import socket
import sys

master, slave = os.openpty()
os.write(slave, b"out\n")
assert os.read(master, 100) == b"out\r\n"
assert pty.spawn([sys.executable, "-c", "import sys; sys.exit(3 if sys.stdout.isatty() else 4)"], lambda fd: os.read(fd, 1024), lambda fd: b"") >> 8 == 3
assert (1, "lo") in socket.if_nameindex()
if not (child := os.fork()):
    os._exit(5)
pidfd = os.pidfd_open(child)
assert select.select([pidfd], [], [])[0] == [pidfd]
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
event = os.eventfd(0)
os.eventfd_write(event, 3)
assert os.eventfd_read(event) == 3
libc = ctypes.CDLL(None, use_errno=True)
watch = libc.inotify_init()
assert libc.inotify_add_watch(watch, b".", 0x100) > 0, os.strerror(ctypes.get_errno())
open("created", "w").close()
assert b"created" in os.read(watch, 4096)
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 64
cpus = os.sched_getaffinity(0)
os.sched_setaffinity(0, {min(cpus)})
assert os.sched_getaffinity(0) == {min(cpus)}
os.nice(1)
