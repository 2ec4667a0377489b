// Learned queries over the states of a recurrent network: Lin et al., "A Structured Self-attentive Sentence Embedding"
// (2017), equations 1 to 8, with any row map in the place of the softmax.
//
//   H = states in both directions of E[tokens]         [N, width], half of it from each
//   A = row map(Q tanh(W H^T))                           [queries, N]; the scores are those of luong_dot
//   M = A H, classes read from all its rows side by side
//   training adds penalty · ‖A A^T − I‖²_F, the mean over the sentences of a batch, so that queries look at other
//   places
#pragma once
#include <torch/nn/pimpl.h>

#include "cogwheel/nn/alignment.h"
#include "cogwheel/nn/recurrent_network.h"
#include "cogwheel/tasks/encoders/forerunner.h"

namespace cogwheel::tasks::encoders {

class StructuredImpl : public Forerunner {
 public:
  // Weights stay uninitialised until `initialize` or a checkpoint fills them.
  explicit StructuredImpl(const StructuredOptions& options);
  void initialize(std::uint64_t seed) override;

  Classified classify(const at::Tensor& tokens, const at::Tensor& segments, const nn::ForwardContext& context,
                      bool learns = false) override;
  // A of each row, [B, queries, N].
  at::Tensor weights(const at::Tensor& tokens, const nn::ForwardContext& context = {});
  nn::Dropout dropout(std::uint64_t seed) const override { return {options_.dropout, seed}; }
  const StructuredOptions& options() const { return options_; }

 private:
  nn::AlignmentMemory read(const at::Tensor& tokens, const nn::ForwardContext& context);
  at::Tensor queries(std::int64_t batch) const { return queries_.unsqueeze(0).expand({batch, -1, -1}); }

  StructuredOptions options_;
  nn::RecurrentNetwork network_{nullptr};
  nn::Linear key_{nullptr};  // W
  at::Tensor queries_;       // Q [queries, width]
  nn::AlignmentLayer alignment_{nullptr};
};
TORCH_MODULE(Structured);

// ‖A A^T − I‖²_F, the mean over a batch, of weights [B, queries, N].
at::Tensor redundancy(const at::Tensor& weights);

}  // namespace cogwheel::tasks::encoders
