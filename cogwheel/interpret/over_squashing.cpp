#include "cogwheel/interpret/over_squashing.h"

#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <vector>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/shape_text.h"
#include "cogwheel/tasks/language/language_model.h"

namespace cogwheel::interpret {
namespace {

// What one step may hold at once, in numbers of 8 bytes: half a gigabyte.
constexpr std::int64_t numbers_at_once = 1 << 26;

// How many times `numbers_of_one` may be held at once: 1 or more, at most `most`.
std::int64_t at_once(std::int64_t numbers_of_one, std::int64_t most) {
  return std::clamp<std::int64_t>(numbers_at_once / numbers_of_one, 1, most);
}

struct LayerValues {
  at::Tensor pattern;                              // [heads, N, N]
  at::Tensor heads;                                // [N, heads, width of a value]
  at::Tensor attention_scale, feed_forward_scale;  // [N]
  at::Tensor feed_forward_norm;                    // [N, width], before gain and bias
};

struct PassValues {
  at::Tensor stream;  // [1, N, width]
  std::vector<LayerValues> layers;
  at::Tensor final_scale;  // [N]
};

void check_input(const tasks::language::LanguageModelImpl& model, const at::Tensor& tokens) {
  if (tokens.dim() != 1 || tokens.numel() == 0 || tokens.scalar_type() != at::kLong)
    throw UsageError(expected_got("over-squashing: tokens", "int64 [tokens], one or more",
                                  std::string(at::toString(tokens.scalar_type())) + " " + shape_text(tokens.sizes())));
  if (model.token_embedding().scalar_type() != at::kDouble)
    throw UsageError(expected_got("over-squashing: model", "float64, in which a bound is one",
                                  at::toString(model.token_embedding().scalar_type())));
  for (const nn::TransformerBlock& layer : model.layers())
    if (!layer->value_circuit())
      throw UsageError(expected_got("over-squashing: model", "one with heads of attention in every layer",
                                    model.options().mechanism));
}

PassValues values_of_pass(tasks::language::LanguageModelImpl& model, const at::Tensor& tokens) {
  const torch::NoGradGuard no_gradient;
  PassValues found;
  found.layers.resize(model.layers().size());
  nn::Hooks hooks;
  hooks.read(nn::HookPlace::full_embedding,
             [&](const nn::HookPoint&, const at::Tensor& value) { found.stream = value; });
  hooks.read(nn::HookPlace::final_norm_scale,
             [&](const nn::HookPoint&, const at::Tensor& value) { found.final_scale = value.flatten(); });
  const auto keep = [&](nn::HookPlace place, at::Tensor LayerValues::*part, auto&& made) {
    hooks.read(place, [&found, part, made](const nn::HookPoint& at, const at::Tensor& value) {
      found.layers[static_cast<std::size_t>(at.layer)].*part = made(value[0]);
    });
  };
  const auto whole = [](const at::Tensor& value) { return value; };
  const auto flat = [](const at::Tensor& value) { return value.flatten(); };
  keep(nn::HookPlace::pattern, &LayerValues::pattern, whole);
  keep(nn::HookPlace::heads, &LayerValues::heads, whole);
  keep(nn::HookPlace::attention_norm_scale, &LayerValues::attention_scale, flat);
  keep(nn::HookPlace::feed_forward_norm_scale, &LayerValues::feed_forward_scale, flat);
  keep(nn::HookPlace::feed_forward_norm, &LayerValues::feed_forward_norm, whole);
  model.forward(tokens.unsqueeze(0), {.hooks = &hooks});
  return found;
}

at::Tensor spectral_norm(const at::Tensor& matrices) { return at::linalg_svdvals(matrices).amax(-1); }

// ‖∂y / ∂v_i‖, [N]. Row r of all derivatives at once comes from the gradient of y_r in copy r of the text.
at::Tensor derivative_norms(tasks::language::LanguageModelImpl& model, const PassValues& values, bool frozen) {
  const torch::AutoGradMode with_gradients(true);
  const std::int64_t length = values.stream.size(1), width = values.stream.size(2);
  at::Tensor last;  // [copies, width]
  nn::Hooks hooks;
  hooks.read(nn::HookPlace::final_norm,
             [&](const nn::HookPoint&, const at::Tensor& value) { last = value.select(1, value.size(1) - 1); });
  if (frozen)
    hooks.replace(nn::HookPlace::pattern, [&](const nn::HookPoint& at, const at::Tensor& value) {
      return values.layers[static_cast<std::size_t>(at.layer)].pattern.expand_as(value);
    });
  std::vector<at::Tensor> rows;
  // Of each layer, a backward pass keeps about a dozen numbers for each of the stream, and two for each weight.
  const std::int64_t heads = values.layers.front().pattern.size(0),
                     layers = static_cast<std::int64_t>(values.layers.size()),
                     most = at_once(layers * length * (12 * width + 2 * heads * length), width);
  for (std::int64_t first = 0; first < width; first += most) {
    const std::int64_t copies = std::min(most, width - first);
    const at::Tensor stream = values.stream.repeat({copies, 1, 1}).requires_grad_(true);
    model.forward_from(0, stream, {.hooks = &hooks});
    const at::Tensor output = (last * model.final_norm()->gain().detach()).slice(1, first, first + copies);
    rows.push_back(torch::autograd::grad({output.diagonal().sum()}, {stream}).front());
  }
  return spectral_norm(at::cat(rows).transpose(0, 1));
}

// Of each token, the norm of the derivative of a layer's feed-forward by what its norm makes before the gain.
at::Tensor feed_forward_norms(const nn::TransformerBlock& layer, const LayerValues& values) {
  const nn::Norm& norm = layer->feed_forward_norm();
  at::Tensor input = values.feed_forward_norm * norm->gain();
  if (norm->bias().defined()) input = input + norm->bias();
  nn::FeedForward feed_forward = layer->feed_forward();
  const std::int64_t length = input.size(0);
  std::vector<at::Tensor> norms;
  for (const at::Tensor& tokens : input.split(at_once(feed_forward->numbers_of_jacobian(), length)))
    norms.push_back(spectral_norm(feed_forward->jacobians(tokens) * norm->gain()));
  return at::cat(norms);
}

// Row n of what heads add, from row n of what is passed on after them. The derivative of a LayerNorm and of an RMSNorm
// is a projection, shortened along x, over what it divides by, so that 1 / scale is its norm.
at::Tensor through_heads(const nn::TransformerBlock& layer, const LayerValues& values, const at::Tensor& row) {
  const nn::ValueCircuit circuit = *layer->value_circuit();
  const at::Tensor value = circuit.value * layer->attention_norm()->gain();
  const at::Tensor weights = values.pattern.abs() / values.attention_scale;  // [heads, N, N]
  at::Tensor norms;                                                          // [heads, N], of the rows that add
  if (circuit.gain.defined()) {
    const at::Tensor scale = (values.heads.square().mean(-1) + circuit.epsilon).sqrt().transpose(0, 1);
    norms = (spectral_norm(circuit.output * circuit.gain) * spectral_norm(value)).unsqueeze(1) / scale;
  } else {
    norms = spectral_norm(at::matmul(circuit.output, value)).unsqueeze(1).expand({weights.size(0), weights.size(1)});
  }
  return at::einsum("hi,hij->j", {norms * row, weights});
}

}  // namespace

OverSquashing over_squashing(tasks::language::LanguageModelImpl& model, const at::Tensor& tokens) {
  check_input(model, tokens);
  const PassValues values = values_of_pass(model, tokens);
  OverSquashing found;
  found.frozen = derivative_norms(model, values, true);
  found.full = derivative_norms(model, values, false);

  const torch::NoGradGuard no_gradient;
  const std::int64_t length = tokens.size(0);
  std::vector<at::Tensor> feed_forward;  // of each layer, [N]
  double largest = 0;
  for (std::size_t layer = 0; layer < values.layers.size(); ++layer) {
    feed_forward.push_back(feed_forward_norms(model.layers()[layer], values.layers[layer]));
    largest = std::max(largest, feed_forward.back().max().item<double>());
  }
  // Row n of each product, from the last layer to the first.
  const at::Tensor last_row = at::zeros({length}, values.final_scale.options());
  last_row[length - 1] = 1;
  at::Tensor bound = last_row, signed_row = last_row, magnitude_row = last_row;
  double constant = 1 / values.final_scale.mean().item<double>();
  for (std::size_t layer = values.layers.size(); layer-- > 0;) {
    const LayerValues& at_layer = values.layers[layer];
    bound = bound * (1 + feed_forward[layer] / at_layer.feed_forward_scale);
    bound = bound + through_heads(model.layers()[layer], at_layer, bound);

    const at::Tensor weights = at_layer.pattern / at_layer.attention_scale.mean();
    signed_row = signed_row + at::mv(weights.mean(0).t(), signed_row);
    magnitude_row = magnitude_row + at::mv(weights.abs().mean(0).t(), magnitude_row);
    constant *= 1 + largest / at_layer.feed_forward_scale.mean().item<double>();
  }
  found.bound = bound * model.final_norm()->gain().abs().max() / values.final_scale[length - 1];
  found.path_product = constant * signed_row;
  found.path_magnitude = constant * magnitude_row;
  return found;
}

}  // namespace cogwheel::interpret
