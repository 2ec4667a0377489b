// Where a function jumps.
#pragma once
#include <functional>
#include <vector>

namespace cogwheel {

struct Jump {
  double at, before, after;  // the values a billionth to either side
};

// Found by halving each of 1024 intervals towards the side on which the function moves more. A jump smaller than a
// millionth of the values is not one.
std::vector<Jump> find_jumps(const std::function<double(double)>& function, double from, double to);

}  // namespace cogwheel
