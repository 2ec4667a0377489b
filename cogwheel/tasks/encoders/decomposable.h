// Two sentences that are compared word by word: Parikh, Täckström, Das, Uszkoreit, "A Decomposable Attention Model for
// Natural Language Inference" (2016), sections 3.1 to 3.3, with any row map in the place of the softmax.
//
//   a_i, b_j = P E[tokens] of the first and of the second sentence
//   e_ij = F(a_i)·F(b_j),   β_i = Σ_j row map_j(e_ij) b_j,   α_j = Σ_i row map_i(e_ij) a_i      scores of luong_dot
//   v = Σ_i G([a_i; β_i]),  w = Σ_j G([b_j; α_j]),  logits = H([v; w])
//
// F and G are relu(W₂ relu(W₁ x + b₁) + b₂), H is forerunner.h's. No state: of the order of words the model knows
// nothing. What stands for the paper's token without meaning are [CLS] and [SEP].
#pragma once
#include <torch/nn/pimpl.h>

#include "cogwheel/nn/alignment.h"
#include "cogwheel/tasks/encoders/forerunner.h"

namespace cogwheel::tasks::encoders {

class DecomposableImpl : public Forerunner {
 public:
  // Weights stay uninitialised until `initialize` or a checkpoint fills them.
  explicit DecomposableImpl(const DecomposableOptions& options);
  void initialize(std::uint64_t seed) override;

  // Throws UsageError without segments, or where a row has one sentence.
  Classified classify(const at::Tensor& tokens, const at::Tensor& segments, const nn::ForwardContext& context,
                      bool learns = false) override;
  nn::Dropout dropout(std::uint64_t seed) const override { return {options_.dropout, seed}; }
  const DecomposableOptions& options() const { return options_; }

 private:
  struct TwoLayers {
    nn::Linear first{nullptr}, second{nullptr};
    at::Tensor operator()(const at::Tensor& x);
  };
  TwoLayers two_layers(const char* name, std::int64_t inputs);

  DecomposableOptions options_;
  nn::Linear project_{nullptr};  // P
  TwoLayers attend_, compare_;   // F, G
  nn::AlignmentLayer alignment_{nullptr};
};
TORCH_MODULE(Decomposable);

}  // namespace cogwheel::tasks::encoders
