# valgrind: finds a leak
echo '#include <stdlib.h>
int main(void) { return malloc(7) == 0; }' >main.c
cc -g -o main main.c
has "$(valgrind --leak-check=full ./main 2>&1)" 'definitely lost: 7 bytes in 1 blocks'
