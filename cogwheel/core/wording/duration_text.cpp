#include "cogwheel/core/wording/duration_text.h"

#include <algorithm>
#include <cmath>

namespace cogwheel {

std::string duration_text(double seconds) {
  const long long whole = std::llround(std::max(seconds, 0.0));
  const auto count = [](long long number, const char* unit) { return std::to_string(number) + unit; };
  if (whole < 60) return count(whole, " s");
  if (whole < 3600) return count(whole / 60, " min ") + count(whole % 60, " s");
  return count(whole / 3600, " h ") + count(whole % 3600 / 60, " min");
}

}  // namespace cogwheel
