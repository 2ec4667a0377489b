// Sequence to sequence with an alignment: a network that reads the source in both directions, and one that writes the
// target, looking at the source at each step. One topology, whose cells and alignment are options:
//
//   h = encoder(E[source])                             [B, S, width], half of it from each direction
//   s_0 = tanh(W_0 [last state forward; last state in reverse]), for each layer
//   bahdanau:    s_t = decoder([E[y_{t−1}]; c_t], s_{t−1}),   c_t = alignment(s_{t−1}, h),
//                x_t = tanh(W_x [s_t; c_t; E[y_{t−1}]])
//   luong_…:     s_t = decoder([E[y_{t−1}]; x_{t−1} with input feeding], s_{t−1}),   c_t = alignment(s_t, h),
//                x_t = tanh(W_c [c_t; s_t])
//   none:        as bahdanau without c_t: all that the decoder knows of the source is s_0
//   logits = E (x_t + W₂ tanh(W₁ x_t)) + b; without a feed-forward E x_t + b
//
//   Sutskever, Vinyals, Le, "Sequence to Sequence Learning with Neural Networks" (2014); for the alignments
//   attention/mechanisms/alignment.h. Bahdanau's maxout layer is a tanh here, and both papers' encoders give the
//   decoder's first state of their own; the rest is as they say.
#pragma once
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cogwheel/nn/alignment.h"
#include "cogwheel/nn/recurrent_network.h"
#include "cogwheel/tasks/translation/sequence_to_sequence_options.h"
#include "cogwheel/tasks/translation/translator.h"

namespace cogwheel::tasks::translation {

// A source that has been read, and how far its translation has come. A value: hypotheses that share one may go
// different ways.
struct DecoderState {
  nn::AlignmentMemory memory;
  nn::CellStates cells;
  at::Tensor fed = {};  // x_{t−1} [B, width]; undefined without input feeding
  std::int64_t step = 0;

  // Entries of the batch, [B'] int64, in that order; one may be named several times, as in beam search.
  DecoderState of_entries(const at::Tensor& entries) const;
};

class SequenceToSequenceImpl : public Translator {
 public:
  // Weights stay uninitialised until `initialize` or a checkpoint fills them.
  explicit SequenceToSequenceImpl(const SequenceToSequenceOptions& options);
  void initialize(std::uint64_t seed) override;

  // tokens [B, S] int64, lengths [B] int64, at least 1 each.
  DecoderState read(const at::Tensor& tokens, const at::Tensor& lengths, const nn::Dropout& dropout = {});

  // What predicts each token, x [B, T, width], for the target's tokens so far, inputs [B, T]. From a fresh state.
  at::Tensor predict(DecoderState state, const at::Tensor& inputs, const nn::Dropout& dropout = {});
  // The same for one more token, [B] → [B, width]; the state goes on.
  at::Tensor step(DecoderState& state, const at::Tensor& tokens);
  at::Tensor logits(const at::Tensor& x);  // [..., width] → [..., V], float32, or as the weights

  std::unique_ptr<State> start(const at::Tensor& tokens, const at::Tensor& lengths) override;
  at::Tensor next_logits(State& state, const at::Tensor& tokens) override;
  at::Tensor loss(const at::Tensor& source, const at::Tensor& lengths, const at::Tensor& inputs,
                  const at::Tensor& targets, double smoothing = 0, const nn::Dropout& dropout = {}) override;

  // The weights of each step, [B, heads, T, S]; not for `none`.
  at::Tensor weights(const DecoderState& state, const at::Tensor& inputs);
  std::int64_t aligning_layers() const override { return alignment_->alignment().is_none() ? 0 : 1; }
  at::Tensor source_weights(const at::Tensor& source, const at::Tensor& lengths, const at::Tensor& inputs,
                            std::optional<std::int64_t> layer = {}) override;
  std::string alignment_title() const override { return alignment_->alignment().title(); }

  nn::Dropout dropout(std::uint64_t seed) const override { return {options_.dropout, seed}; }
  std::int64_t context() const override { return options_.context; }
  std::int64_t longest() const override { return std::numeric_limits<std::int64_t>::max(); }
  const SequenceToSequenceOptions& options() const { return options_; }

 private:
  // The state that the alignment reads at each step, [B, T, width], beside x.
  struct Pass {
    at::Tensor predicted, aligned;
  };
  Pass pass(DecoderState& state, const at::Tensor& inputs, const nn::Dropout& dropout);
  Pass pass_at_once(DecoderState& state, const at::Tensor& embedded, const nn::Dropout& dropout);
  Pass pass_by_steps(DecoderState& state, const at::Tensor& embedded, const nn::Dropout& dropout);
  bool aligns_before_step() const { return aligns() && alignment_->alignment().kind->before_step; }
  bool feeds() const;
  at::Tensor product_of_logits(const at::Tensor& x);  // bfloat16 where products are
  at::Tensor embed_source(const at::Tensor& tokens);
  at::Tensor embed_target(const at::Tensor& tokens);
  at::Tensor readout(const at::Tensor& states, const at::Tensor& contexts, const at::Tensor& embedded);

  SequenceToSequenceOptions options_;
  at::Tensor embedding_, target_embedding_, output_;  // [V, width]; the last two only where they are not tied
  at::Tensor output_bias_;
  nn::RecurrentNetwork encoder_{nullptr}, decoder_{nullptr};
  std::vector<nn::Linear> first_states_;  // for each state of the decoder
  nn::AlignmentLayer alignment_{nullptr};
  nn::Linear readout_{nullptr};  // W_x
  nn::Linear widen_{nullptr}, narrow_{nullptr};
};
TORCH_MODULE(SequenceToSequence);

}  // namespace cogwheel::tasks::translation
