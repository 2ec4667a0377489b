// An LSTM that attends over its own past states: Cheng, Dong, Lapata, "Long Short-Term Memory-Networks for Machine
// Reading" (2016), equations 5 to 10, with any row map in the place of the softmax. Of the token t, over i < t:
//
//   a_i = v·tanh(W_h h_i + W_x x_t + W_p p_{t−1}),   s = row map(a)        the score is that of bahdanau
//   p_t = Σ_i s_i h_i,   q_t = Σ_i s_i c_i                                  0 of the first token
//   h_t, c_t = an LSTM's step on x_t from the state p_t and the memory q_t
//
// Classes are read from the mean of h over the tokens.
#pragma once
#include <torch/nn/pimpl.h>

#include "cogwheel/nn/alignment.h"
#include "cogwheel/nn/recurrent_network.h"
#include "cogwheel/tasks/encoders/forerunner.h"

namespace cogwheel::tasks::encoders {

class LstmnImpl : public Forerunner {
 public:
  // Weights stay uninitialised until `initialize` or a checkpoint fills them.
  explicit LstmnImpl(const LstmnOptions& options);
  void initialize(std::uint64_t seed) override;

  Classified classify(const at::Tensor& tokens, const at::Tensor& segments, const nn::ForwardContext& context,
                      bool learns = false) override;
  // h of every token, [B, N, width], padding included.
  at::Tensor states(const at::Tensor& tokens, const nn::Dropout& dropout = {});
  nn::Dropout dropout(std::uint64_t seed) const override { return {options_.dropout, seed}; }
  const LstmnOptions& options() const { return options_; }

 private:
  LstmnOptions options_;
  nn::RecurrentNetwork cell_{nullptr};
  nn::AlignmentLayer alignment_{nullptr};  // its query weight is [W_x W_p]
};
TORCH_MODULE(Lstmn);

}  // namespace cogwheel::tasks::encoders
