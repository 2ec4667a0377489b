// The headers of Cogwheel that a mechanism is compiled against.
#pragma once
#include <filesystem>
#include <string>

namespace cogwheel {

// The folder to include from: the one that COGWHEEL_HEADERS names, `include` beside the library (an installed package),
// or the source tree, whichever holds the very headers that this library was built from. Throws Error where none does.
std::filesystem::path header_folder();

// What tells those headers from any others.
std::string header_fingerprint();

// The shared object or executable that this code runs from.
std::filesystem::path own_library();

}  // namespace cogwheel
