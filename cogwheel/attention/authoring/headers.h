// The headers of Cogwheel that a mechanism is compiled against.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>

namespace cogwheel::authoring {

// The folder to include from: the one that COGWHEEL_HEADERS names, `include` beside the library (an installed package),
// or the source tree, whichever has exactly the headers that this library was built from. Throws Error where none has.
std::filesystem::path header_folder();

// The one of those headers that declares a type of that name in its text, as
// "cogwheel/attention/mechanisms/contract.h"; empty where none does, or no headers are found.
std::string header_that_declares(std::string_view type);

// Whether C++ has `struct`, `class`, `enum`, `concept` or `using` before that name anywhere.
bool declares_type(std::string_view text, std::string_view type);

// A hash of those headers.
std::string header_fingerprint();

// The shared object or executable that this code runs from.
std::filesystem::path this_library();

}  // namespace cogwheel::authoring
