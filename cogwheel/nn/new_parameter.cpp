#include "cogwheel/nn/new_parameter.h"

#include <torch/types.h>

#include <utility>

namespace cogwheel {
namespace {

thread_local at::Device device_of_new = at::kCPU;
thread_local const TakeParameters::Next* next_of_new = nullptr;

}  // namespace

at::Tensor new_parameter(at::IntArrayRef sizes) {
  return next_of_new != nullptr ? (*next_of_new)(sizes) : torch::empty(sizes, device_of_new);
}
at::Device device_of_new_parameters() { return device_of_new; }

PlaceParameters::PlaceParameters(at::Device device) : before_(device_of_new) { device_of_new = device; }
PlaceParameters::~PlaceParameters() { device_of_new = before_; }

TakeParameters::TakeParameters(Next next) : next_(std::move(next)), before_(next_of_new) { next_of_new = &next_; }
TakeParameters::~TakeParameters() { next_of_new = before_; }

}  // namespace cogwheel
