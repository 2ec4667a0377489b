#include "cogwheel/interpret/path_patching.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "cogwheel/core/error.h"
#include "cogwheel/tasks/language/language_model.h"

namespace cogwheel::interpret {
namespace {

// The values of a pass at the last token of each prompt, by layer.
struct LastToken {
  std::vector<at::Tensor> stream, attention, feed_forward;  // [B, width]
  std::vector<at::Tensor> heads;                            // [B, heads, width of a value], as the output reads them
};

// Reads them in the next passes with these hooks.
void read_last_token(nn::Hooks& hooks, const tasks::language::LanguageModelImpl& model, const at::Tensor& end,
                     LastToken& found) {
  const auto keep = [&](nn::HookPlace place, std::vector<at::Tensor>& values, std::optional<std::int64_t> layer = {}) {
    values.resize(model.layers().size());
    hooks.read(
        place,
        [&values, end](const nn::HookPoint& at, const at::Tensor& value) {
          values[static_cast<std::size_t>(at.layer)] = at_end(value, end);
        },
        layer);
  };
  keep(nn::HookPlace::stream_before, found.stream);
  keep(nn::HookPlace::attention_output, found.attention);
  keep(nn::HookPlace::feed_forward_output, found.feed_forward);
  for (std::size_t layer = 0; layer < model.layers().size(); ++layer)
    keep(model.layers()[layer]->has_hook(nn::HookPlace::normed_heads) ? nn::HookPlace::normed_heads
                                                                      : nn::HookPlace::heads,
         found.heads, static_cast<std::int64_t>(layer));
}

void expect_receivers(const tasks::language::LanguageModelImpl& model, const std::vector<PathReceiver>& receivers) {
  const auto layers = static_cast<std::int64_t>(model.layers().size());
  for (const PathReceiver& receiver : receivers) {
    if (receiver.place != nn::HookPlace::query_input && receiver.place != nn::HookPlace::key_input &&
        receiver.place != nn::HookPlace::value_input)
      throw UsageError(expected_got("path patching: receiver", "hook_q_input, hook_k_input or hook_v_input",
                                    nn::HookPoint{receiver.place, receiver.layer}.name()));
    if (receiver.layer < 0 || receiver.layer >= layers)
      throw UsageError(expected_got("path patching: layer of a receiver", "0 to " + std::to_string(layers - 1),
                                    std::to_string(receiver.layer)));
  }
}

class Sender {
 public:
  Sender(tasks::language::LanguageModelImpl& model, const LastToken& clean, const LastToken& corrupted, bool freeze)
      : model_(model), clean_(clean), corrupted_(corrupted), freeze_(freeze) {}

  // The rest of the pass at the last token for every head of a layer: [heads · B, 1, …] in that order. `hooks` may
  // read more.
  at::Tensor send(std::int64_t layer, nn::Hooks hooks) const {
    const auto at = static_cast<std::size_t>(layer);
    const std::optional<nn::ValueCircuit> circuit = model_.layers()[at]->value_circuit();
    const at::Tensor change = corrupted_.heads[at] - clean_.heads[at];
    const std::int64_t heads = change.size(1);
    const auto for_each_head = [heads](const at::Tensor& value) {  // [B, W] → [heads · B, 1, W]
      return value.unsqueeze(0).expand({heads, -1, -1}).flatten(0, 1).unsqueeze(1);
    };
    // [B, heads, values] and [heads, width, values] to [heads, B, width].
    const at::Tensor sent = change.transpose(0, 1).to(circuit->output.scalar_type()).matmul(circuit->output.mT());
    hooks.supply(nn::HookPlace::attention_output, [&](const nn::HookPoint& point) {
      const auto here = static_cast<std::size_t>(point.layer);
      const at::Tensor value = for_each_head(clean_.attention[here]);
      return here == at ? value + sent.flatten(0, 1).unsqueeze(1) : value;
    });
    if (freeze_)
      hooks.supply(nn::HookPlace::feed_forward_output, [&](const nn::HookPoint& point) {
        return for_each_head(clean_.feed_forward[static_cast<std::size_t>(point.layer)]);
      });
    return model_.forward_from(layer, for_each_head(clean_.stream[at]), {.hooks = &hooks});
  }

 private:
  tasks::language::LanguageModelImpl& model_;
  const LastToken &clean_, &corrupted_;
  bool freeze_;
};

}  // namespace

at::Tensor PathPatching::change() const {
  if (clean == 0 || !std::isfinite(clean))
    throw UsageError(expected_got("path patching: mean logit difference of the clean prompts", "another number than 0",
                                  std::to_string(clean)));
  return (patched - clean) / clean;
}

PathPatching patch_paths(tasks::language::LanguageModelImpl& model, const Prompts& clean, const at::Tensor& corrupted,
                         const PathPatchingOptions& options) {
  const torch::NoGradGuard no_gradient;
  clean.check(model.options().vocabulary, corrupted);
  for (std::size_t layer = 0; layer < model.layers().size(); ++layer)
    if (!model.layers()[layer]->value_circuit())
      throw UsageError(
          expected_got("path patching: layer " + std::to_string(layer), "one with heads of attention", "another"));
  expect_receivers(model, options.receivers);
  const auto layers = static_cast<std::int64_t>(model.layers().size());
  std::int64_t first_receiver = layers;
  for (const PathReceiver& receiver : options.receivers) first_receiver = std::min(first_receiver, receiver.layer);

  LastToken of_clean, of_corrupted;
  at::Tensor stream;  // before the first receiver, at all tokens
  PathPatching found;
  {
    nn::Hooks hooks;
    read_last_token(hooks, model, clean.end, of_clean);
    if (first_receiver < layers)
      hooks.read(
          nn::HookPlace::stream_before, [&](const nn::HookPoint&, const at::Tensor& value) { stream = value; },
          first_receiver);
    found.clean =
        logit_difference(model.forward(clean.tokens, {.hooks = &hooks}), clean).mean(at::kDouble).item<double>();
  }
  {
    nn::Hooks hooks;
    read_last_token(hooks, model, clean.end, of_corrupted);
    model.forward(corrupted, {.hooks = &hooks});
  }

  const Sender sender(model, of_clean, of_corrupted, options.freeze_feed_forward);
  std::int64_t heads = 0;
  for (const at::Tensor& each : of_clean.heads) heads = std::max(heads, each.size(1));
  found.patched = at::full({layers, heads}, std::numeric_limits<double>::quiet_NaN(), at::kDouble);
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const std::int64_t here = of_clean.heads[static_cast<std::size_t>(layer)].size(1);
    if (options.receivers.empty()) {
      const at::Tensor logits = sender.send(layer, {}).unflatten(0, {here, clean.size()}).squeeze(2);  // [here, B, V]
      const auto of = [&](const at::Tensor& tokens) {
        return logits.gather(2, tokens.to(logits.device()).view({1, -1, 1}).expand({here, -1, 1})).squeeze(2);
      };
      found.patched[layer].narrow(0, 0, here).copy_((of(clean.answer) - of(clean.foil)).mean(1, false, at::kDouble));
      continue;
    }
    // What each receiver's layer reads, [heads, B, width].
    std::vector<at::Tensor> heard(static_cast<std::size_t>(layers));
    nn::Hooks hooks;
    for (const PathReceiver& receiver : options.receivers)
      if (receiver.layer > layer)
        hooks.read(
            nn::HookPlace::stream_before,
            [&](const nn::HookPoint& at, const at::Tensor& value) {
              heard[static_cast<std::size_t>(at.layer)] = value.unflatten(0, {here, clean.size()}).squeeze(2);
            },
            receiver.layer);
    sender.send(layer, hooks);
    for (std::int64_t head = 0; head < here; ++head) {
      nn::Hooks receives;
      bool any = false;
      for (const PathReceiver& receiver : options.receivers) {
        const at::Tensor& of_layer = heard[static_cast<std::size_t>(receiver.layer)];
        if (!of_layer.defined()) continue;
        any = true;
        receives.replace(
            receiver.place,
            [&, receiver](const nn::HookPoint& at, const at::Tensor& value) {
              if (receiver.head < 0 || receiver.head >= value.size(2))
                throw UsageError(expected_got("path patching: head of " + at.name(),
                                              "0 to " + std::to_string(value.size(2) - 1),
                                              std::to_string(receiver.head)));
              at::Tensor changed = value.clone();
              changed.index_put_(
                  {at::arange(clean.size(), at::kLong), clean.end, at::full({clean.size()}, receiver.head, at::kLong)},
                  of_layer[head].to(value.scalar_type()));
              return changed;
            },
            receiver.layer);
      }
      if (!any) continue;
      found.patched[layer][head] =
          logit_difference(model.forward_from(first_receiver, stream, {.hooks = &receives}), clean).mean(at::kDouble);
    }
  }
  return found;
}

}  // namespace cogwheel::interpret
