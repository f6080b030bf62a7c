# python shared memory: SharedMemory, mmap, memfd_create and an exec of it
import mmap
import os
import subprocess
from multiprocessing.shared_memory import SharedMemory

block = SharedMemory(create=True, size=8)
child = "import sys; from multiprocessing.shared_memory import SharedMemory as S; b = S(sys.argv[1]); b.buf[0] = 7; b.close()"
subprocess.run(["python3", "-c", child, block.name], check=True)
assert block.buf[0] == 7
block.close()
try:
    block.unlink()
except FileNotFoundError:
    pass  # the child's resource tracker did
with open("mapped", "wb+") as file:
    file.truncate(4096)
    with mmap.mmap(file.fileno(), 4096) as mapped:
        mapped[:2] = b"ok"
assert open("mapped", "rb").read(2) == b"ok"
memfd = os.memfd_create("program")
with open("/bin/echo", "rb") as program:
    os.sendfile(memfd, program.fileno(), 0, os.fstat(program.fileno()).st_size)
path = f"/proc/self/fd/{memfd}"
assert subprocess.check_output(["echo", "ran"], executable=path, pass_fds=[memfd]) == b"ran\n"
