# gcc: a precompiled header, a shared library, threads and OpenMP
echo '#define ANSWER 42' >answer.h
flags=(-pthread -fopenmp)
cc "${flags[@]}" answer.h
[ -s answer.h.gch ]
echo 'int twice(int n) { return 2 * n; }' >twice.c
cc -shared -fPIC -o libtwice.so twice.c
cat >main.c <<'END'
#include "answer.h"
#include <pthread.h>
#include <stdio.h>
int twice(int n);
static void *work(void *n) { *(int *)n = twice(ANSWER); return 0; }
int main(void) {
    int n = 0, sum = 0;
    pthread_t thread;
    pthread_create(&thread, 0, work, &n);
    pthread_join(thread, 0);
#pragma omp parallel for num_threads(4) reduction(+ : sum)
    for (int i = 1; i <= 100; i++) sum += i;
    printf("%d %d\n", n, sum);
}
END
cc "${flags[@]}" -Winvalid-pch -Werror -o main main.c -L. -ltwice -Wl,-rpath,"$PWD"
is "$(./main)" '84 5050'
