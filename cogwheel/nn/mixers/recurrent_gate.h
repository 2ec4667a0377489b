// One of a law's own tensors, made from the tokens or learned alone.
#pragma once
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <string>

#include "cogwheel/nn/mixers/recurrent_recipe.h"
#include "cogwheel/nn/weights/linear.h"

namespace cogwheel::nn {

struct RecurrentGateOptions {
  GateRecipe recipe;
  RecurrentParameter parameter;  // of the law
  std::int64_t inputs = 0;       // the width that W reads
  std::int64_t heads = 0, key_width = 0, value_width = 0;
  std::int64_t layer = 0, layers = 1;  // of lower bounds and initial values
  bool doubled = false;                // by an option of the law
};

class RecurrentGateImpl : public torch::nn::Module {
 public:
  explicit RecurrentGateImpl(const RecurrentGateOptions& options);

  struct Value {
    at::Tensor tensor;     // [B, H, N], [B, H, N, width], or without B and N
    at::Tensor step = {};  // [B, H, N, 1], by which values are multiplied; undefined where they are not
  };
  Value forward(const at::Tensor& x);  // x [B, N, inputs]
  bool reads_tokens() const { return reads_tokens_; }
  std::int64_t rank() const { return into_rank_ ? into_rank_->weight().size(0) : 0; }  // of W; 0: full
  const RecurrentGateOptions& options() const { return options_; }
  const std::vector<std::int64_t>& sizes() const { return sizes_; }  // of one token: [H], [H, width] or [H, D, V]
  double lower_bound() const;                                        // of GateMap::above_bound

  void initialize(const WeightInitializer& initializer, const std::string& name, double standard_deviation);

 private:
  Value mapped(const at::Tensor& y) const;
  RecurrentGateOptions options_;
  std::vector<std::int64_t> sizes_;
  bool reads_tokens_ = false;
  Linear into_rank_{nullptr}, projection_{nullptr};
  at::Tensor bias_;      // [product of the sizes]
  at::Tensor constant_;  // [H], of step_times_constant
};
TORCH_MODULE(RecurrentGate);

}  // namespace cogwheel::nn
