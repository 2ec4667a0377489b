// The time of day in records.
#pragma once
#include <string>

namespace cogwheel {

// "2026-03-12T10:20:30Z".
std::string utc_now();

}  // namespace cogwheel
