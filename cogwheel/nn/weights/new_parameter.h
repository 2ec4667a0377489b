// Where new layers have their parameters from, and on which device they create them.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <string>

namespace torch::nn {
class Module;
}

namespace cogwheel::nn {

// Registers a parameter of `owner`: an uninitialised float32 tensor on the device of the innermost PlaceParameters of
// this thread, or where there is none on that of place_parameters_by_default. Or the tensor that a TakeParameters
// gives, which others may be reading: it is registered as it is, with a gradient only if it wants one.
at::Tensor new_parameter(torch::nn::Module& owner, const std::string& name, at::IntArrayRef sizes);
at::Device device_of_new_parameters();

// Of every thread, from now on; the CPU until it is called. Before layers are made.
void place_parameters_by_default(at::Device device);

// While such an object exists, new layers on its thread create their parameters on the device. On at::kMeta they take
// no memory, which is how the parameters of a model are counted.
class PlaceParameters {
 public:
  explicit PlaceParameters(at::Device device);
  ~PlaceParameters();
  PlaceParameters(const PlaceParameters&) = delete;
  PlaceParameters& operator=(const PlaceParameters&) = delete;

 private:
  std::optional<at::Device> before_;
};

// While such an object exists, the parameters of new layers on its thread are what `next` gives for their sizes, one
// after another: layers of one kind with the same options ask in the same order.
class TakeParameters {
 public:
  using Next = std::function<at::Tensor(at::IntArrayRef sizes)>;
  explicit TakeParameters(Next next);
  ~TakeParameters();
  TakeParameters(const TakeParameters&) = delete;
  TakeParameters& operator=(const TakeParameters&) = delete;

 private:
  Next next_;
  const Next* before_;
};

}  // namespace cogwheel::nn
