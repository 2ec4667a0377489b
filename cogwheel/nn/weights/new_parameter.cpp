#include "cogwheel/nn/weights/new_parameter.h"

#include <torch/nn/module.h>
#include <torch/types.h>

#include <utility>

namespace cogwheel::nn {
namespace {

at::Device default_device = at::kCPU;
thread_local std::optional<at::Device> innermost_device;
thread_local const TakeParameters::Next* next_of_new = nullptr;

}  // namespace

at::Tensor new_parameter(torch::nn::Module& owner, const std::string& name, at::IntArrayRef sizes) {
  if (next_of_new == nullptr) return owner.register_parameter(name, torch::empty(sizes, device_of_new_parameters()));
  at::Tensor given = (*next_of_new)(sizes);
  const bool wants_gradient = given.requires_grad();
  return owner.register_parameter(name, std::move(given), wants_gradient);
}
at::Device device_of_new_parameters() { return innermost_device.value_or(default_device); }
void place_parameters_by_default(at::Device device) { default_device = device; }

PlaceParameters::PlaceParameters(at::Device device) : before_(innermost_device) { innermost_device = device; }
PlaceParameters::~PlaceParameters() { innermost_device = before_; }

TakeParameters::TakeParameters(Next next) : next_(std::move(next)), before_(next_of_new) { next_of_new = &next_; }
TakeParameters::~TakeParameters() { next_of_new = before_; }

}  // namespace cogwheel::nn
