// Where a function jumps, or grows without bound.
#pragma once
#include <functional>
#include <optional>
#include <vector>

namespace cogwheel {

struct Jump {
  double at, before, after;  // the values right beside it
  bool is_pole = false;      // towards which the function grows without bound
};

// Found by halving intervals towards the side on which the function moves more: at least 1024, at least 64 to a unit up
// to ±16, and beyond a 64th of the distance from 0 each. At most one to an interval, in order of |at|. What lies at
// the end of where the function is a finite number is not found.
std::vector<Jump> find_jumps(const std::function<double(double)>& function, double from, double to);

// Whether there is one at that very place. What is smaller than a millionth of the values around it is none.
std::optional<Jump> jump_at(const std::function<double(double)>& function, double at);

}  // namespace cogwheel
