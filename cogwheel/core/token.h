// A token: an index into a vocabulary. Four bytes, since a corpus is held in memory as tokens.
#pragma once
#include <cstdint>

namespace cogwheel {

using Token = std::int32_t;

// In the place of a target: none. PyTorch's cross-entropy leaves it out by default.
inline constexpr std::int64_t ignored_target = -100;

}  // namespace cogwheel
