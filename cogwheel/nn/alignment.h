// How a step of a decoder looks at an encoded source: Bahdanau's and Luong's alignments over any row map
// (attention/mechanisms/alignment.h has names and formulas). Attention with a score and a window; no engine of its own.
//
// What depends on the source alone is computed once for it (`remember`); then steps may come one by one or all in one
// call, with the same results. Which state a kind reads, the one before the step or that of it, is the caller's part.
//
// With H heads, each head has H-th parts of the decoder's states (of W s, for an additive score), of the keys, of v and
// of the encoder's states as values, and a position of its own for local-p; contexts of the heads lie side by side.
// Scores are not scaled.
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <optional>
#include <string>

#include "cogwheel/attention/mechanisms/alignment.h"
#include "cogwheel/nn/dropout.h"
#include "cogwheel/nn/weights/collected_weight.h"
#include "cogwheel/nn/weights/initialization.h"
#include "cogwheel/nn/weights/linear.h"
#include "cogwheel/ops/pairwise/attention.h"

namespace cogwheel::nn {

struct AlignmentLayerOptions {
  std::string alignment = "bahdanau";
  std::int64_t decoder_width = 0;  // of a state s
  std::int64_t encoder_width = 0;  // of a state h
  std::int64_t score_width = 0;    // rows of W and U of an additive score; 0: as decoder_width
  std::int64_t heads = 1;          // a divisor of the three
  double radius = 10;              // D of the local kinds
  bool attentional = true;         // of a Luong kind: whether it has W_c, for attentional_state
};

// Throws UsageError that names the first invalid option.
void check(const AlignmentLayerOptions& options);

// The sources of a batch, as the steps of a decoder read them. With gradients, where the encoder's states have them.
struct AlignmentMemory {
  at::Tensor key = {};                     // [B, H, S, head_dim]; undefined without attention
  at::Tensor value = {};                   // [B, H, S, encoder_width / H]
  std::optional<at::Tensor> lengths = {};  // [B] int64: tokens at and beyond are padding
  // W of the states of all steps, where the score has one: as the weights are, and with gradients or without, when this
  // is made.
  std::optional<CollectedWeight> query = {};

  // The same sources with more tokens after these, for those who read what they have written themselves. Without
  // lengths.
  AlignmentMemory followed_by(const AlignmentMemory& more) const;
  // Copies of the named entries, [B'] int64, in that order: the hypotheses of a beam search.
  AlignmentMemory fork(const at::Tensor& entries) const;
};

class AlignmentLayerImpl : public torch::nn::Module {
 public:
  explicit AlignmentLayerImpl(const AlignmentLayerOptions& options);

  // encoded [B, S, encoder_width], lengths [B] int64 where sources differ in length. What lies in the padding has no
  // effect on anything, NaN included. `values` [B, S, any multiple of H] are what contexts are made of where that is
  // not what is scored; contexts are as wide then.
  AlignmentMemory remember(const at::Tensor& encoded, const std::optional<at::Tensor>& lengths = {},
                           const at::Tensor& values = {});

  // The contexts c of the steps first_step, first_step + 1, …: states [B, T, decoder_width] → [B, T, encoder_width], or
  // [B, T, 0] without attention. A step whose window holds no token of the source gets 0. The dropout applies to the
  // weights; steps that come one by one need a part of it each (Dropout::part), or they drop the same weights.
  at::Tensor forward(const at::Tensor& states, const AlignmentMemory& memory, std::int64_t first_step = 0,
                     const Dropout& dropout = {});

  // [B, heads, T, S]: what the values are multiplied by. Not for `none`.
  at::Tensor weights(const at::Tensor& states, const AlignmentMemory& memory, std::int64_t first_step = 0);

  // Of the Luong kinds: h̃ = tanh(W_c [c; s]), [B, T, decoder_width].
  at::Tensor attentional_state(const at::Tensor& contexts, const at::Tensor& states);

  // p of local-p, [B, heads, T], from 0 to the length of the source.
  at::Tensor predicted_positions(const at::Tensor& states, const AlignmentMemory& memory);

  std::int64_t context_width() const { return alignment_.is_none() ? 0 : options_.encoder_width; }
  const Alignment& alignment() const { return alignment_; }

  // `name` is the full name of the module, dots included.
  void initialize(const WeightInitializer& initializer, const std::string& name, double standard_deviation);

 private:
  bool is(AlignmentScore score) const { return alignment_.kind->score == score; }
  bool is(AlignmentWindow window) const { return alignment_.kind->window == window; }
  at::Tensor query(const at::Tensor& states, const AlignmentMemory& memory);  // [B, heads, T, head_dim]
  ops::AttentionOptions operator_options(const at::Tensor& states, const AlignmentMemory& memory,
                                         std::int64_t first_step, const Dropout& dropout);

  AlignmentLayerOptions options_;
  Alignment alignment_;
  Linear query_{nullptr};             // W of an additive score
  Linear key_{nullptr};               // U of an additive score, W of a general one
  Linear position_{nullptr};          // W_p
  Linear combine_{nullptr};           // W_c
  at::Tensor score_;                  // v [heads, score_width / heads]
  at::Tensor position_score_;         // v_p [heads, decoder_width / heads]
  ops::MechanismParameters learned_;  // the scalars of the row map, [heads] each
};
TORCH_MODULE(AlignmentLayer);

}  // namespace cogwheel::nn
