// Where the tensors of new layers go.
#pragma once
#include <ATen/core/Tensor.h>

namespace cogwheel {

// A tensor for a parameter, float32 and not filled, on the device of the innermost PlaceParameters of this thread; on
// the CPU where there is none.
at::Tensor new_parameter(at::IntArrayRef sizes);
at::Device device_of_new_parameters();

// While one lives, new layers on its thread have their parameters on the device. On at::kMeta they take no memory: how
// the parameters of a model are counted.
class PlaceParameters {
 public:
  explicit PlaceParameters(at::Device device);
  ~PlaceParameters();
  PlaceParameters(const PlaceParameters&) = delete;
  PlaceParameters& operator=(const PlaceParameters&) = delete;

 private:
  at::Device before_;
};

}  // namespace cogwheel
