// A model that translates, as batches, search, scores and pages use it, whichever topology it has.
#pragma once
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cogwheel/nn/dropout.h"

namespace cogwheel::tasks::translation {

class Translator : public torch::nn::Module {
 public:
  // A source that has been read, and how far its translation has come.
  class State {
   public:
    virtual ~State() = default;
    // Entries of the batch, [B'] int64, in that order; one may be named several times, as in beam search. They go their
    // own way.
    virtual std::unique_ptr<State> fork(const at::Tensor& entries) const = 0;
  };

  virtual void initialize(std::uint64_t seed) = 0;

  // tokens [B, S] int64, lengths [B] int64, at least 1 each.
  virtual std::unique_ptr<State> start(const at::Tensor& tokens, const at::Tensor& lengths) = 0;
  // The logits of what follows one more token of each target, [B] → [B, V]; the state goes on.
  virtual at::Tensor next_logits(State& state, const at::Tensor& tokens) = 0;

  // Mean cross-entropy in nats over the targets [B, T] that are not `ignored_target`, with label smoothing: each target
  // is (1 − smoothing) certain, and the rest is spread over the whole vocabulary. Of the target's tokens so far, inputs
  // [B, T].
  virtual at::Tensor loss(const at::Tensor& source, const at::Tensor& lengths, const at::Tensor& inputs,
                          const at::Tensor& targets, double smoothing = 0, const nn::Dropout& dropout = {}) = 0;

  // How many layers look at the source with weights of their own; 0: none does.
  virtual std::int64_t aligning_layers() const = 0;
  bool aligns() const { return aligning_layers() > 0; }
  // The layer, from 0, whose weights tell best which words belong together, of a model that aligns.
  virtual std::int64_t aligning_layer() const { return aligning_layers() - 1; }
  // Its weights, or those of another layer, at each step of a target, [B, heads, T, S]: what step t looks at while it
  // predicts the token after inputs[t].
  virtual at::Tensor source_weights(const at::Tensor& source, const at::Tensor& lengths, const at::Tensor& inputs,
                                    std::optional<std::int64_t> layer = {}) = 0;
  virtual std::string alignment_title() const = 0;  // of pictures: the mechanism

  virtual nn::Dropout dropout(std::uint64_t seed) const = 0;
  virtual std::int64_t context() const = 0;  // the most tokens of a sentence in training, its end included
  virtual std::int64_t longest() const = 0;  // the most tokens of a source or a target that it can read
};

// The model of a run of the task.
inline Translator& translator_of(torch::nn::Module& module) { return dynamic_cast<Translator&>(module); }

}  // namespace cogwheel::tasks::translation
