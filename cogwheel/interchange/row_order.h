// In which order rows or columns of theirs are ours.
#pragma once
#include <cstdint>
#include <vector>

namespace cogwheel::interchange {

// Rows or columns of ours as those of theirs: our i is their order[i]. Empty: all in the same place.
using Order = std::vector<std::int64_t>;

// Rows of `heads` whose rotary components are adjacent here, (2i, 2i + 1), and a half apart there, (i, i + head_dim/2).
Order adjacent_from_halves(std::int64_t heads, std::int64_t head_dim);
// Rows of heads in pairs, which are adjacent here, (2h, 2h + 1), and a half apart there, (h, h + heads/2).
Order paired_from_halves(std::int64_t heads, std::int64_t head_dim);
// Both, one after the other: of what `first` makes of ours, `second` makes theirs.
Order composed(const Order& first, const Order& second);

}  // namespace cogwheel::interchange
