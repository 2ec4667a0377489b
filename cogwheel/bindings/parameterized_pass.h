// Layers of C++ whose pass Python calls by name: with parameters that Python holds, and with hooks of Python.
//
// Hooks come through the dispatcher: at each point that a pass was asked to show, the layers call
//   cogwheel::hook(int callback, str name, Tensor value) -> Tensor
// which Python implements (python/cogwheel/hooks.py). Nothing here is linked with Python.
#pragma once
#include <c10/core/Device.h>
#include <c10/util/Exception.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cogwheel/core/error.h"
#include "cogwheel/runs/named_pass.h"

namespace cogwheel::bindings {

// In Python, what a caller got wrong is a ValueError. Those that hooks of Python threw pass.
template <class Call>
decltype(auto) with_value_errors(const Call& call) {
  try {
    return call();
  } catch (const Error& error) {
    TORCH_CHECK_VALUE(false, error.what());
  } catch (const c10::IndexError&) {
    // PyTorch's own message names neither the input nor the table.
    TORCH_CHECK_VALUE(false, expected_got("tokens, segments or condition", "numbers of rows that the model has",
                                          "one beyond, or an empty tensor"));
  }
}

class ParameterizedPass {
 public:
  using Inputs = runs::PassInputs;
  using Make = std::function<runs::NamedPass()>;

  // `make` makes new layers, alike each time, whose parameters are those that are in force
  // (nn/weights/new_parameter.h): here uninitialised ones on the device.
  explicit ParameterizedPass(Make make, at::Device device = at::kCPU);
  // The same layers around these tensors, by their names: inputs of every pass, so that derivatives reach whatever they
  // were computed from. Throws UsageError for one that is missing or of another shape.
  ParameterizedPass(const ParameterizedPass& other, const Inputs& parameters);

  torch::nn::Module& module() const { return *pass_.module; }
  const std::vector<nn::HookPoint>& points() const { return pass_.points; }
  // The tensors of the layers, not copies: what changes them changes the layers, and backward fills in their gradients.
  Inputs parameters() const;
  const std::vector<std::string>& parameter_names() const { return order_; }
  // Of every point where hooks read or replace a value, in the order of a pass; of those that can only be read; and of
  // those that are computed only where they are asked for by name.
  std::vector<std::string> hook_names() const;
  std::vector<std::string> read_only_hook_names() const;
  std::vector<std::string> on_request_hook_names() const;

  // What the layers make of their inputs; those that are left out are undefined. At the points of `hooked`, the value
  // is what `callback` makes of it. Under torch.autocast in bfloat16, products are in it. Throws UsageError for a name
  // that the layers do not have.
  at::Tensor run(const Inputs& inputs, const std::vector<std::string>& hooked, std::int64_t callback) const;
  at::Tensor run(const Inputs& inputs, const nn::ForwardContext& context) const { return pass_.run(inputs, context); }

 private:
  Make make_;
  std::vector<std::string> order_;  // of the parameters' names, as layers ask for them
  runs::NamedPass pass_;
};

}  // namespace cogwheel::bindings
