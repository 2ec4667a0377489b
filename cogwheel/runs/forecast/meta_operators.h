// Shapes of operators that libtorch has on the `meta` device only where Python has loaded its own.
#pragma once
#include <torch/library.h>

namespace cogwheel::runs {

// While one exists, they are there.
class MetaOperators {
 public:
  MetaOperators();

 private:
  torch::Library library_;
};

}  // namespace cogwheel::runs
