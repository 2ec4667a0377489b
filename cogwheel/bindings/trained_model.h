// A model, of a run or new, as an object of PyTorch, torch.classes.cogwheel.TrainedModel, which the Python package
// wraps: one model, in C++, for both languages.
#pragma once
#include <torch/custom_class.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "cogwheel/bindings/parameterized_pass.h"

namespace cogwheel::tasks::language {
class LanguageModelImpl;
}  // namespace cogwheel::tasks::language

namespace cogwheel::text {
class Tokenizer;
}  // namespace cogwheel::text

namespace cogwheel::runs {
struct RunConfig;
}  // namespace cogwheel::runs

namespace cogwheel::bindings {

class TrainedModel : public torch::CustomClassHolder {
 public:
  using Inputs = ParameterizedPass::Inputs;

  // The model of the run in `folder` with the weights of its checkpoint, averaged ones where it has them. Throws
  // ValueError for the run of another model, and for a damaged one.
  explicit TrainedModel(const std::string& folder);

  // A language model of these options, a JSON object of keys of [model] without "model.", with uninitialised parameters
  // on the device. Throws ValueError that names the first invalid option.
  static c10::intrusive_ptr<TrainedModel> language_model_of(const std::string& options, at::Device device);
  // The values that training with `seed` begins with. Of language models.
  void initialize(std::int64_t seed) const;
  // Of each block of a language model what bindings/layer.h says of it, a JSON list.
  std::string blocks() const;
  // Of a language model whose positions are rotary what bindings/layer_description.h says of them, else "null".
  std::string rotary() const;

  // The same model with these tensors as its parameters, by their names: inputs of its passes, so that derivatives
  // reach whatever they were computed from. Throws ValueError for one that is missing or of another shape.
  c10::intrusive_ptr<TrainedModel> with_parameters(const Inputs& parameters) const;

  // ModelEntry::name
  const std::string& topology() const { return topology_; }
  // The names of a pass's inputs, in their order; those that may be left out end in ?.
  std::vector<std::string> inputs() const;
  // The keys of [model] as a JSON object, without "model.".
  const std::string& options() const { return options_; }
  // The model's own tensors, not copies: what changes them changes the model, and backward fills in their gradients.
  Inputs parameters() const { return pass_.parameters(); }
  // ParameterizedPass, with ValueErrors.
  std::vector<std::string> hook_names() const { return pass_.hook_names(); }
  std::vector<std::string> read_only_hook_names() const { return pass_.read_only_hook_names(); }
  std::vector<std::string> on_request_hook_names() const { return pass_.on_request_hook_names(); }
  at::Tensor forward(const Inputs& inputs, const std::vector<std::string>& hooked, std::int64_t callback) const;
  // text/text_tokens.h, with the tokenizer of the run; ValueError where it has none. Tokens are int64 [N].
  at::Tensor tokens(const std::string& text) const;
  std::vector<std::string> pieces(const at::Tensor& tokens) const;
  // Tokenizer::beginning and end_of_document, and text::token_before_texts; none where the model has no tokenizer.
  std::optional<std::int64_t> beginning_token() const;
  std::optional<std::int64_t> end_token() const;
  std::optional<std::int64_t> token_before_texts() const;
  // tasks/language/text_generation.h, of language models: the options are a JSON object of its options and those of
  // runs::SamplingOptions, and what is returned a JSON list. Without a tokenizer there are tokens alone.
  std::string generate(const std::vector<at::Tensor>& prompts, const std::string& options) const;
  // interpret/effective_attention.h
  std::vector<at::Tensor> effective_attention(const Inputs& inputs, bool by_channel) const;

  // interpret/ of language models; others are ValueErrors. `prompts` has tokens, end, answer and foil of prompts.h, and
  // where two are compared corrupted tokens. Means of clean and corrupted passes come first, then what was patched.
  //
  // interpret/patching.h: `name` is that of any layer's place, such as attn.hook_z.
  std::vector<at::Tensor> patch_activations(const Inputs& prompts, const std::string& name, bool by_token,
                                            bool estimate) const;
  // interpret/path_patching.h: receivers by the names of their points and their heads.
  std::vector<at::Tensor> patch_paths(const Inputs& prompts, const std::vector<std::string>& receivers,
                                      const std::vector<std::int64_t>& heads, bool freeze_feed_forward) const;
  // interpret/logit_attribution.h
  std::tuple<std::vector<std::string>, at::Tensor> attribute_logits(const Inputs& prompts) const;
  // interpret/head_scores.h: previous, duplicate and induction, [2, layers, heads] each: weights, and their magnitudes.
  std::vector<at::Tensor> head_scores(const at::Tensor& tokens) const;
  // interpret/copying.h: bare, full, and the deviation of chance.
  std::vector<at::Tensor> copying_scores() const;
  // interpret/representation_distance.h, of tokens [N] each: its numbers in their order.
  std::vector<double> representation_distance(const at::Tensor& one, const at::Tensor& other) const;
  // interpret/over_squashing.h, of tokens [N]: its tensors in their order.
  std::vector<at::Tensor> over_squashing(const at::Tensor& tokens) const;

 private:
  TrainedModel(std::shared_ptr<const runs::RunConfig> config, std::string folder, at::Device device);
  TrainedModel(const TrainedModel& other, const Inputs& parameters);

  tasks::language::LanguageModelImpl& language_model() const;
  const text::Tokenizer& tokenizer() const;
  const text::Tokenizer* tokenizer_or_null() const;

  std::string folder_;  // of the run; empty where there is none
  std::shared_ptr<const runs::RunConfig> config_;
  std::string topology_, options_;
  mutable std::shared_ptr<const text::Tokenizer> tokenizer_;  // read when it is needed
  ParameterizedPass pass_;
};

}  // namespace cogwheel::bindings
