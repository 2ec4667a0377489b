// Classes of data as the classes of a model: by their names, since what a class is called does not depend on where it
// stands, and where it stands differs between a model and the data that it is measured on.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cogwheel::runs {

struct ClassMatch {
  std::vector<std::int64_t> places;  // of each class of the data among those of the model
  std::string note = {};             // in one line, how they were matched; empty: by equal names
};

// In this order: by equal names; by names that differ in letter case and separators alone; where the data have numbers
// (1, LABEL_1), by these as places; where the model has, which then says nothing of its classes, and there are as many,
// in the order of the data. Throws Error that begins with `what` where a class of the data is none of the model's, or
// may be two of them.
ClassMatch match_classes(const std::vector<std::string>& model, const std::vector<std::string>& data,
                         std::string_view what);

}  // namespace cogwheel::runs
