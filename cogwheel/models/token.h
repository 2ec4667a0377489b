// A token: an index into a vocabulary. Four bytes, since a corpus is held in memory as tokens.
#pragma once
#include <cstdint>

namespace cogwheel {

using Token = std::int32_t;

}  // namespace cogwheel
