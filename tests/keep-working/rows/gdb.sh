# gdb: a breakpoint in a child, its variables, a backtrace; attaching to a sibling
cat >main.c <<'END'
#include <unistd.h>
static int twice(int n) { return 2 * n; }
int main(int argc, char **argv) {
    if (argc > 1) { write(1, "up\n", 3); pause(); }
    return twice(21);
}
END
cc -g -O0 -o main main.c
out=$(gdb -q -batch -nx -ex 'break twice' -ex run -ex 'print n' -ex backtrace -ex continue ./main 2>&1)
has "$out" '$1 = 21'
has "$out" 'main (argc=1'
has "$out" 'exited with code 052'
coproc ./main wait
read -r up <&"${COPROC[0]}"
is "$up" up
# shellcheck disable=SC2153
out=$(gdb -q -batch -nx -p "$COPROC_PID" -ex 'frame function main' -ex 'print argc' -ex kill 2>&1)
has "$out" '$1 = 2'
