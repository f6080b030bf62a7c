# -fsanitize=address,undefined: clean where all is well; finds an overflow, and a leak by LeakSanitizer
cat >main.c <<'END'
#include <limits.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv) {
    char *volatile held = malloc(10);
    if (!strcmp(argv[1], "overflow")) held[10] = 1;
    volatile int most = INT_MAX;
    if (!strcmp(argv[1], "undefined")) most += argc;
    if (!strcmp(argv[1], "leak")) { held = 0; return 0; }
    free(held);
}
END
cc -g -fsanitize=address,undefined -o main main.c
export ASAN_OPTIONS=detect_leaks=1
./main well
has "$(./main overflow 2>&1)" 'heap-buffer-overflow'
has "$(./main undefined 2>&1)" 'signed integer overflow'
has "$(./main leak 2>&1)" 'LeakSanitizer: detected memory leaks'
