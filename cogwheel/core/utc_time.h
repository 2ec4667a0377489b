// The time as records have it.
#pragma once
#include <string>

namespace cogwheel {

// ISO 8601: "2026-03-12T09:30:00Z".
std::string utc_now();

}  // namespace cogwheel
