#include "cogwheel/interpret/effective_attention.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace cogwheel::interpret {
namespace {

// Values [B, N, heads, channels] that are 1 where the token is that of the channel: `first` of the first channel, and
// of the others as many tokens later or, by channel, the same.
at::Tensor unit_values(const at::Tensor& like, std::int64_t first, bool by_channel) {
  at::Tensor values = at::zeros_like(like);
  const std::int64_t tokens = like.size(1), channels = like.size(3);
  if (by_channel) {
    values.select(1, first).fill_(1);
    return values;
  }
  for (std::int64_t channel = 0; channel < channels && first + channel < tokens; ++channel)
    values.select(3, channel).select(1, first + channel).fill_(1);
  return values;
}

// Whether some layer mixes the channels of its values differently, by more than rounding: told by values that differ
// between tokens and are alike in all channels.
bool channels_differ(const ModelPass& pass, const std::map<std::int64_t, at::Tensor>& added) {
  bool differ = false;
  nn::Hooks hooks;
  hooks.replace(nn::HookPlace::value, [&](const nn::HookPoint& at, const at::Tensor& value) {
    if (at.memory) return value;
    const at::Tensor of_tokens = at::arange(1, value.size(1) + 1, value.options()).mul(2.4).sin();
    return of_tokens.view({1, -1, 1, 1}).expand_as(value).contiguous();
  });
  hooks.read(nn::HookPlace::heads, [&](const nn::HookPoint& at, const at::Tensor& z) {
    if (at.memory) return;
    const double rounding = 64 * (z.scalar_type() == at::kDouble ? std::numeric_limits<double>::epsilon()
                                                                 : std::numeric_limits<float>::epsilon());
    differ = differ || ((z - z.narrow(3, 0, 1)).abs().max() > rounding * z.abs().max()).item<bool>();
  });
  hooks.replace(nn::HookPlace::attention_output, [&](const nn::HookPoint& at, const at::Tensor& value) {
    return at.memory ? value : added.at(at.layer);
  });
  pass({.hooks = &hooks});
  return differ;
}

}  // namespace

std::vector<at::Tensor> effective_attention(const ModelPass& pass, const EffectiveAttentionOptions& options) {
  const torch::NoGradGuard no_gradient;
  std::map<std::int64_t, at::Tensor> added;  // by layer: what attention adds in the pass itself
  std::int64_t tokens = 0, channels = 1;     // channels: the fewest of a layer
  nn::Hooks observing;
  observing.read(nn::HookPlace::attention_output, [&](const nn::HookPoint& at, const at::Tensor& value) {
    if (!at.memory) added[at.layer] = value;
  });
  observing.read(nn::HookPlace::value, [&](const nn::HookPoint& at, const at::Tensor& value) {
    if (at.memory) return;
    channels = tokens == 0 ? value.size(3) : std::min(channels, value.size(3));
    tokens = value.size(1);
  });
  pass({.hooks = &observing});

  const bool apart = options.by_channel || channels_differ(pass, added);
  const std::int64_t step = apart ? 1 : channels;
  std::map<std::int64_t, std::vector<at::Tensor>> columns;
  for (std::int64_t first = 0; first < tokens; first += step) {
    nn::Hooks hooks;
    hooks.replace(nn::HookPlace::value, [&](const nn::HookPoint& at, const at::Tensor& value) {
      return at.memory ? value : unit_values(value, first, apart);
    });
    hooks.read(nn::HookPlace::heads, [&](const nn::HookPoint& at, const at::Tensor& z) {  // [B, N, heads, channels]
      if (at.memory) return;
      const at::Tensor by_head = z.transpose(1, 2);
      columns[at.layer].push_back(options.by_channel ? by_head.unsqueeze(3)
                                  : apart            ? by_head.mean(3, /*keepdim=*/true)
                                                     : by_head.narrow(3, 0, std::min(step, tokens - first)));
    });
    hooks.replace(nn::HookPlace::attention_output, [&](const nn::HookPoint& at, const at::Tensor& value) {
      return at.memory ? value : added.at(at.layer);
    });
    pass({.hooks = &hooks});
  }
  std::vector<at::Tensor> matrices;
  for (const auto& [layer, parts] : columns) matrices.push_back(at::cat(parts, 3));
  return matrices;
}

}  // namespace cogwheel::interpret
