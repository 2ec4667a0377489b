// A layer of nn as an object of PyTorch, torch.classes.cogwheel.Layer, for Python's modules of the same names
// (python/cogwheel/nn). These compute by operators, in Python; of this they have their description, their initial
// values, and passes in which hooks see what lies inside, which are those of the C++ layer.
#pragma once
#include <torch/custom_class.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cogwheel/bindings/parameterized_pass.h"
#include "cogwheel/nn/weights/initialization.h"

namespace cogwheel::bindings {

class Layer : public torch::CustomClassHolder {
 public:
  using Inputs = ParameterizedPass::Inputs;

  // `kind` is attention, recurrent or block; `options` a JSON object as layer_description.h reads it, in which
  // `rotary` may be an object of positions, base and halves. Throws ValueError for what the layer refuses.
  Layer(const std::string& kind, const std::string& options);

  // layer_description.h
  const std::string& description() const { return description_; }
  // New tensors with the values that training begins with, by name. The second deviation is of the projection that
  // writes into the residual stream.
  Inputs initial_parameters(std::int64_t seed, double standard_deviation, double residual_standard_deviation) const;

  std::vector<std::string> parameter_names() const { return pass_.parameter_names(); }
  std::vector<std::string> hook_names() const { return pass_.hook_names(); }
  std::vector<std::string> read_only_hook_names() const { return pass_.read_only_hook_names(); }
  std::vector<std::string> on_request_hook_names() const { return pass_.on_request_hook_names(); }
  // Of these parameters, by name. Inputs: x, and where given memory, lengths, memory_lengths, cu_seqlens, positions,
  // dropout and seed, both numbers.
  at::Tensor forward(const Inputs& parameters, const Inputs& inputs, const std::vector<std::string>& hooked,
                     std::int64_t callback) const;

 private:
  struct Made;  // what a kind makes of its options
  static Made made(const std::string& kind, const std::string& options);
  explicit Layer(Made made);

  std::string description_;
  std::function<void(torch::nn::Module& layer, const nn::WeightInitializer& initializer, double standard_deviation,
                     double residual_standard_deviation)>
      initialize_;
  ParameterizedPass::Make make_;
  ParameterizedPass pass_;  // without memory
};

}  // namespace cogwheel::bindings
