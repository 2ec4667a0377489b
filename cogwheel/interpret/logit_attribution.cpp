#include "cogwheel/interpret/logit_attribution.h"

#include <torch/types.h>
#include <torch/utils.h>

#include "cogwheel/core/wording/head_name.h"
#include "cogwheel/tasks/language/language_model.h"

namespace cogwheel::interpret {

LogitAttribution attribute_logits(tasks::language::LanguageModelImpl& model, const Prompts& prompts) {
  const torch::NoGradGuard no_gradient;
  prompts.check(model.options().vocabulary);
  LogitAttribution found;
  std::vector<at::Tensor> written;  // [B, width] each
  const auto keep = [&](const std::string& part, const at::Tensor& value) {
    found.parts.push_back(part);
    written.push_back(value);
  };
  nn::Hooks hooks;
  at::Tensor scale, of_heads;
  const auto read = [&](nn::HookPlace place, const std::string& part) {
    hooks.read(place, [&, part](const nn::HookPoint& at, const at::Tensor& value) {
      keep(at.layer < 0 ? part : head_layer_name(at.layer) + " " + part, at_end(value, prompts.end));
    });
  };
  read(nn::HookPlace::embedding, "embedding");
  read(nn::HookPlace::position_embedding, "position embedding");
  hooks.read(nn::HookPlace::result, [&](const nn::HookPoint& at, const at::Tensor& value) {
    const at::Tensor last = at_end(value, prompts.end);  // [B, heads, width]
    of_heads = last.sum(1);
    for (std::int64_t head = 0; head < last.size(1); ++head) keep(head_name(at.layer, head), last.select(1, head));
  });
  hooks.read(nn::HookPlace::attention_output, [&](const nn::HookPoint& at, const at::Tensor& value) {
    const at::Tensor last = at_end(value, prompts.end);
    keep(head_layer_name(at.layer) + " attention", of_heads.defined() ? last - of_heads : last);
    of_heads = at::Tensor();
  });
  read(nn::HookPlace::feed_forward_output, "feed-forward");
  hooks.read(nn::HookPlace::final_norm_scale,
             [&](const nn::HookPoint&, const at::Tensor& value) { scale = at_end(value, prompts.end); });
  model.forward(prompts.tokens, {.hooks = &hooks});

  const nn::Norm& norm = model.final_norm();
  const at::Tensor difference =
      model.unembedding().index_select(0, prompts.answer) - model.unembedding().index_select(0, prompts.foil);
  at::Tensor direction = difference * norm->gain();  // [B, width]
  // The mean that a layer norm takes away does not count, of whatever is projected.
  if (norm->kind() == nn::NormKind::layer) direction = direction - direction.mean(1, true);
  direction = direction / scale;
  at::Tensor biases = at::zeros({prompts.size()}, direction.options());
  if (norm->bias().defined()) biases = biases + difference.mv(norm->bias());
  if (const at::Tensor bias = model.unembedding_bias(); bias.defined())
    biases = biases + bias.index_select(0, prompts.answer) - bias.index_select(0, prompts.foil);
  std::vector<at::Tensor> values;
  for (const at::Tensor& each : written) values.push_back((each * direction).sum(1));
  found.parts.push_back("biases");
  values.push_back(biases);
  found.values = at::stack(values);
  return found;
}

}  // namespace cogwheel::interpret
