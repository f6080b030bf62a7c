# cmake: configure and build with ninja, run the tests with ctest
cat >CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.20)
project(answer C)
add_executable(answer answer.c)
enable_testing()
add_test(NAME answers COMMAND answer)
END
echo '#include <stdio.h>
int main(void) { return puts("42") < 0; }' >answer.c
cmake -G Ninja -S . -B build >log
cmake --build build >>log
is "$(build/answer)" 42
has "$(cd build && ctest)" '100% tests passed'
