#include "cogwheel/core/wording/count_text.h"

#include <cstdio>

namespace cogwheel {

std::string count_text(double count) {
  char text[32];
  if (count < 1e3)
    std::snprintf(text, sizeof text, "%.0f", count);
  else if (count < 1e6)
    std::snprintf(text, sizeof text, "%.1f k", count / 1e3);
  else
    std::snprintf(text, sizeof text, "%.1f M", count / 1e6);
  return text;
}

}  // namespace cogwheel
