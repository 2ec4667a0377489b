// Where a function jumps, or grows without bound.
#pragma once
#include <functional>
#include <optional>
#include <vector>

namespace cogwheel::authoring {

struct Jump {
  double at, before, after;  // the values right beside it
  bool is_pole = false;      // where the function grows without bound
};

// Found by halving intervals towards the side on which the function changes more: at least 1024 intervals, at least 64
// to a unit up to ±16, and beyond that each a 64th of the distance from 0. At most one to an interval, in order of
// |at|. Jumps at the edge of the range in which the function is finite are not found.
std::vector<Jump> find_jumps(const std::function<double(double)>& function, double from, double to);

// The jump at that very place, if any. A difference below a millionth of the values around it does not count.
std::optional<Jump> jump_at(const std::function<double(double)>& function, double at);

}  // namespace cogwheel::authoring
