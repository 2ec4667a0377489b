// The encoder of text: Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers for Language
// Understanding" (2019), sections 3 and A.2, without the prediction of a next sentence.
//
//   x = norm(token + position + segment embedding)
//   x = norm(x + attention(x));  x = norm(x + feed_forward(x))      for each layer
//   hidden words    norm(gelu(W x + b)) · token embeddings + c
//   classes         V tanh(P x + b) + c of the first token
#pragma once
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "cogwheel/nn/blocks/transformer_block.h"
#include "cogwheel/tasks/encoders/encoder_options.h"
#include "cogwheel/tasks/encoders/sentence_classifier.h"

namespace cogwheel::tasks::encoders {

class EncoderImpl : public SentenceClassifier {
 public:
  // Weights stay uninitialised until `initialize` or a checkpoint fills them.
  explicit EncoderImpl(const EncoderOptions& options);

  // N(0, 0.02²), biases 0, gains 1. Tensors are seeded by their names: runs with the same seed are paired across
  // mechanisms.
  void initialize(std::uint64_t seed) override;

  // tokens [B, N] int64, segments likewise or undefined for all of the first → [B, N, width]. The context says which
  // tokens are padding (`lengths`), or which sequences lie one after another in a batch of one (`cu_seqlens`), whose
  // positions then begin anew. Throws UsageError where a sequence is longer than options().context.
  at::Tensor states(const at::Tensor& tokens, const at::Tensor& segments = {}, const nn::ForwardContext& context = {});
  // Every point where hooks read or replace a value, in the order of a pass.
  std::vector<nn::HookPoint> hook_points() const;
  // rows [n, width] of states → [n, vocabulary]. Of a model without classes.
  at::Tensor word_logits(const at::Tensor& rows);
  // first tokens [B, width] of states → [B, classes]. Of a model with classes.
  at::Tensor class_logits(const at::Tensor& first, const nn::Dropout& dropout = {});
  // Both, of a model with classes.
  Classified classify(const at::Tensor& tokens, const at::Tensor& segments, const nn::ForwardContext& context,
                      bool learns = false) override;
  nn::Dropout dropout(std::uint64_t seed) const override { return {options_.dropout, seed}; }

  const EncoderOptions& options() const { return options_; }

 private:
  at::Tensor positions(const at::Tensor& tokens, const nn::ForwardContext& context) const;

  EncoderOptions options_;
  at::Tensor token_embedding_, position_embedding_, segment_embedding_;  // [vocabulary | context | segments, width]
  nn::Norm embedding_norm_{nullptr};
  std::vector<nn::TransformerBlock> layers_;
  nn::Linear word_transform_{nullptr};  // of hidden words
  nn::Norm word_norm_{nullptr};
  at::Tensor word_bias_;  // [vocabulary]
  nn::Linear pooler_{nullptr}, classifier_{nullptr};
};
TORCH_MODULE(Encoder);

}  // namespace cogwheel::tasks::encoders
