// Compiled by `cargo xtask setup` to see whether the C++ compiler works.
#include <optional>
#include <string>
#include <vector>

int main() { return std::optional<std::vector<std::string>>{} ? 1 : 0; }
