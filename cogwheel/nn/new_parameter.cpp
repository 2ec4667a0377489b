#include "cogwheel/nn/new_parameter.h"

#include <torch/types.h>

namespace cogwheel {
namespace {

thread_local at::Device device_of_new = at::kCPU;

}  // namespace

at::Tensor new_parameter(at::IntArrayRef sizes) { return torch::empty(sizes, device_of_new); }
at::Device device_of_new_parameters() { return device_of_new; }

PlaceParameters::PlaceParameters(at::Device device) : before_(device_of_new) { device_of_new = device; }
PlaceParameters::~PlaceParameters() { device_of_new = before_; }

}  // namespace cogwheel
