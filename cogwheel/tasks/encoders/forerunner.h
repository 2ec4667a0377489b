// What the forerunners of self-attention that classify sentences have in common: embeddings before, and a layer of
// hidden units that reads the classes after.
//
//   logits = V relu(W x + b) + c
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "cogwheel/nn/weights/linear.h"
#include "cogwheel/runs/named_pass.h"
#include "cogwheel/tasks/encoders/forerunner_options.h"
#include "cogwheel/tasks/encoders/sentence_classifier.h"

namespace cogwheel::tasks::encoders {

class Forerunner : public SentenceClassifier {
 public:
  // Every point where hooks read or replace a value: there are none.
  std::vector<nn::HookPoint> hook_points() const { return {}; }

 protected:
  enum DropoutPart : std::uint64_t { of_embedding, of_layers, of_reading };

  // `read_width`: of what the classes are read from.
  Forerunner(const ForerunnerOptions& options, const char* what, std::int64_t read_width);
  void initialize_ends(const nn::WeightInitializer& initializer);

  // tokens [B, N] → [B, N, width]. Throws UsageError for more than the context.
  at::Tensor embed(const at::Tensor& tokens, const nn::Dropout& dropout) const;
  at::Tensor read_classes(const at::Tensor& x, const nn::Dropout& dropout);  // [B, read_width] → [B, classes]
  at::Device device() const { return embedding_.device(); }

 private:
  const char* what_;
  std::int64_t context_;
  at::Tensor embedding_;  // [vocabulary, width]
  nn::Linear hidden_{nullptr}, classifier_{nullptr};
};

// What products gave in bfloat16, as what is between them: float32. Other types stay.
at::Tensor computed(const at::Tensor& x);
// Of a linear layer: 1 / √inputs, so that what it gives is of the order of what it reads.
double deviation_of(std::int64_t inputs);
// 1 where a token is none of padding, [B, N, 1], of the type of `like`; undefined without lengths.
at::Tensor seen_tokens(const nn::ForwardContext& context, const at::Tensor& like);

// How Python runs a model of these: tokens, segments and lengths to logits.
template <class Model>
runs::NamedPass pass_of_classifier(Model model) {
  return runs::named_pass(std::move(model), [](Model& classifier, const runs::PassInputs& inputs,
                                               nn::ForwardContext context) {
    if (const at::Tensor lengths = runs::optional_whole_input(inputs, "lengths"); lengths.defined())
      context.lengths = lengths;
    return classifier
        ->classify(runs::needed_whole_input(inputs, "tokens"), runs::optional_whole_input(inputs, "segments"), context)
        .logits;
  });
}

}  // namespace cogwheel::tasks::encoders
