// Which build of a program this process runs.
#pragma once
#include <string>
#include <vector>

namespace cogwheel {

// A digest of the identifiers that the linker gave the executable and the loaded libraries whose file names contain one
// of `libraries`: the same sources, built alike, have the same. Empty where the executable has none.
std::string build_id(const std::vector<std::string>& libraries = {});

}  // namespace cogwheel
