// A model that tells sentences apart, as the task sentences uses it, whichever topology it has.
#pragma once
#include <torch/nn/module.h>

#include <cstdint>

#include "cogwheel/nn/dropout.h"
#include "cogwheel/nn/forward_context.h"

namespace cogwheel::tasks::encoders {

struct Classified {
  at::Tensor logits;        // [B, classes], float32, or as the weights
  at::Tensor penalty = {};  // what training adds to the loss, a mean over the batch; undefined: nothing
};

class SentenceClassifier : public torch::nn::Module {
 public:
  virtual void initialize(std::uint64_t seed) = 0;

  // Rows of encoder_batch (sentence_batches.h): tokens [B, N] int64, and segments likewise or undefined for one
  // sentence in each. The context has the lengths, if there is padding. Only with `learns` there is a penalty.
  virtual Classified classify(const at::Tensor& tokens, const at::Tensor& segments, const nn::ForwardContext& context,
                              bool learns = false) = 0;

  virtual nn::Dropout dropout(std::uint64_t seed) const = 0;
};

// The model of a run of the task.
inline SentenceClassifier& classifier_of(torch::nn::Module& module) {
  return dynamic_cast<SentenceClassifier&>(module);
}

}  // namespace cogwheel::tasks::encoders
