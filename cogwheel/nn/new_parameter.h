// On which device new layers create their parameters.
#pragma once
#include <ATen/core/Tensor.h>

namespace cogwheel {

// An uninitialised float32 tensor for a parameter, on the device of the innermost PlaceParameters of this thread; on
// the CPU where there is none.
at::Tensor new_parameter(at::IntArrayRef sizes);
at::Device device_of_new_parameters();

// While such an object exists, new layers on its thread create their parameters on the device. On at::kMeta they take
// no memory, which is how the parameters of a model are counted.
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
