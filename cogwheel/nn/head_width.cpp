#include "cogwheel/nn/head_width.h"

#include <string>

#include "cogwheel/core/error.h"

namespace cogwheel::nn {

std::int64_t checked_head_width(std::int64_t width, std::int64_t heads, std::int64_t head_dim, std::int64_t largest) {
  if (width < 1) throw UsageError(expected_got("width", "at least 1", std::to_string(width)));
  if (head_dim != 0 && heads < 1) throw UsageError(expected_got("heads", "at least 1", std::to_string(heads)));
  if (head_dim == 0 && (heads < 1 || width % heads != 0))
    throw UsageError(
        expected_got("heads", "a divisor of the width (" + std::to_string(width) + ")", std::to_string(heads)));
  const std::int64_t head_width = head_dim == 0 ? width / heads : head_dim;
  if (head_width < min_head_dim || head_width > largest)
    throw UsageError(expected_got(head_dim == 0 ? "head_dim (width / heads)" : "head_dim",
                                  std::to_string(min_head_dim) + " to " + std::to_string(largest),
                                  std::to_string(head_width)));
  return head_width;
}

}  // namespace cogwheel::nn
