# g++: the standard library with threads, exceptions, files
cat >main.cpp <<'END'
#include <filesystem>
#include <future>
#include <iostream>
#include <stdexcept>
int main() {
    auto future = std::async(std::launch::async, []() -> int { throw std::runtime_error("thrown"); });
    try { future.get(); } catch (const std::exception &e) { std::cout << e.what() << ' '; }
    std::filesystem::create_directories("a/b");
    std::filesystem::rename("a/b", "c");
    std::cout << std::filesystem::is_directory("c") << '\n';
}
END
g++ -std=c++17 -pthread -o main main.cpp
is "$(./main)" 'thrown 1'
