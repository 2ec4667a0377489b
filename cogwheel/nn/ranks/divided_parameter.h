// What a rank holds of a parameter where ranks share heads (shared_pass.h).
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace cogwheel::nn {

// A parameter that lies in equal shares on as many ranks: of each part of a dimension, one after the other, a rank has
// its share. Layers say so of their whole parameters; in a shared pass they find their share in the same place.
struct DividedParameter {
  at::Tensor value;
  std::int64_t dim = 0;
  std::vector<std::int64_t> parts;
};

// A model that ranks can share. Ranks that do not divide every part of a parameter hold it whole.
class DividesParameters {
 public:
  virtual ~DividesParameters() = default;
  virtual std::vector<DividedParameter> divided_parameters() const = 0;
};

}  // namespace cogwheel::nn
