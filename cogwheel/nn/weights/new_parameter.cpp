#include "cogwheel/nn/weights/new_parameter.h"

#include <torch/nn/module.h>
#include <torch/types.h>

#include <utility>

namespace cogwheel::nn {
namespace {

thread_local at::Device device_of_new = at::kCPU;
thread_local const TakeParameters::Next* next_of_new = nullptr;

}  // namespace

at::Tensor new_parameter(torch::nn::Module& owner, const std::string& name, at::IntArrayRef sizes) {
  if (next_of_new == nullptr) return owner.register_parameter(name, torch::empty(sizes, device_of_new));
  at::Tensor given = (*next_of_new)(sizes);
  const bool wants_gradient = given.requires_grad();
  return owner.register_parameter(name, std::move(given), wants_gradient);
}
at::Device device_of_new_parameters() { return device_of_new; }

PlaceParameters::PlaceParameters(at::Device device) : before_(device_of_new) { device_of_new = device; }
PlaceParameters::~PlaceParameters() { device_of_new = before_; }

TakeParameters::TakeParameters(Next next) : next_(std::move(next)), before_(next_of_new) { next_of_new = &next_; }
TakeParameters::~TakeParameters() { next_of_new = before_; }

}  // namespace cogwheel::nn
