# cmake -DROOT=… -DNAMES=… -DTARGET=… -P header_fingerprint.cmake: a C++ header with the names of headers, separated by
# spaces, and what tells them from others. cogwheel/attention/authoring/headers.cpp computes the same of a folder.
separate_arguments(names UNIX_COMMAND "${NAMES}")
set(lines "")
set(list "")
foreach(name IN LISTS names)
  file(SHA256 ${ROOT}/${name} hash)
  string(APPEND lines "${name} ${hash}\n")
  string(APPEND list "    \"${name} \"\n")
endforeach()
string(SHA256 fingerprint "${lines}")
file(WRITE ${TARGET}
"// Generated: the headers that the library was built from.
#pragma once
#include <string_view>

namespace cogwheel {

inline constexpr std::string_view built_header_names =
${list}    \"\";
inline constexpr std::string_view built_header_fingerprint = \"${fingerprint}\";

}  // namespace cogwheel
")
