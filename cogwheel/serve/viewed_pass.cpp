#include "cogwheel/serve/viewed_pass.h"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>

#include "cogwheel/core/error.h"
#include "cogwheel/core/process/wall_clock.h"
#include "cogwheel/tasks/language/language_model.h"

namespace cogwheel::serve {
namespace {

std::span<const float> numbers_in(const at::Tensor& contiguous) {
  return {contiguous.const_data_ptr<float>(), static_cast<std::size_t>(contiguous.numel())};
}

at::Tensor as_floats(const at::Tensor& values) { return values.to(at::kFloat).cpu().contiguous(); }

at::Tensor batch_of(const ViewedText& text) {
  return at::tensor(std::vector<std::int64_t>(text.tokens.begin(), text.tokens.end()), at::kLong).unsqueeze(0);
}

void expect_room(const ViewedRun& run, const ViewedText& text, std::int64_t heads) {
  const auto tokens = static_cast<std::int64_t>(text.tokens.size());
  const auto of_head = static_cast<std::size_t>(tokens * (tokens + 1) / 2) * sizeof(std::int16_t);
  const auto bytes = of_head * static_cast<std::size_t>(heads * run.model()->options().layers);
  if (bytes > most_map_bytes)
    throw UsageError(expected_got("text", fmt::format("maps of at most {} MiB", most_map_bytes >> 20),
                                  fmt::format("{} MiB for {} tokens", bytes >> 20, tokens)));
}

// Keeps the maps that a pass comes to. The pass goes on with dense weights, layer by layer, which it then forgets.
nn::Hooks::Reader collecting(HeadMaps& maps, const ViewedRun& run, const ViewedText& text) {
  return [&maps, &run, &text](const nn::HookPoint& at, const at::Tensor& layer) {
    if (at.layer == 0) expect_room(run, text, layer.size(1));
    maps.add_layer();
    for (const at::Tensor& head : layer.squeeze(0).unbind(0)) {
      const at::Tensor numbers = as_floats(head);
      if (numbers.isnan().any().item<bool>())
        throw UsageError(expected_got(run.name(), "attention of finite numbers", "NaN in " + at.name()));
      maps.add_head(numbers_in(numbers));
    }
  };
}

void expect_place(const ViewedRun& run, nn::HookPlace place, const std::string& what) {
  std::int64_t layers = 0;
  for (const nn::HookPoint& point : run.model()->hook_points()) layers += point.place == place && !point.memory;
  if (layers != run.model()->options().layers)
    throw UsageError(expected_got(run.name(), what, "the mechanism " + run.mechanism()));
}

}  // namespace

std::shared_ptr<const ViewedPass> view_pass(const ViewedRun& run, const ViewedText& text,
                                            std::span<const interpret::HeadEdit> edits,
                                            const interpret::HeadOutputs& own, const interpret::HeadOutputs& other) {
  const torch::NoGradGuard no_gradient;
  expect_place(run, nn::HookPlace::pattern, "heads with weights in every layer");
  const auto begin = WallClock::now();
  const auto pass =
      std::make_shared<ViewedPass>(ViewedPass{.weights = HeadMaps(static_cast<std::int64_t>(text.tokens.size())),
                                              .value_lengths = {},
                                              .next = {},
                                              .outputs = {}});
  nn::Hooks hooks;
  interpret::edit_heads(hooks, edits, own, other);
  std::vector<at::Tensor> lengths;  // of each layer [value heads, tokens]
  hooks.read(nn::HookPlace::value, [&](const nn::HookPoint&, const at::Tensor& value) {
    lengths.push_back(as_floats(value.squeeze(0).norm(2, -1).transpose(0, 1)));
  });
  hooks.read(nn::HookPlace::pattern, collecting(pass->weights, run, text));
  hooks.read(nn::HookPlace::heads,
             [&](const nn::HookPoint&, const at::Tensor& z) { pass->outputs.push_back(z.contiguous()); });
  const at::Tensor logits = run.model()->forward(batch_of(text), {.hooks = &hooks});
  const at::Tensor next = as_floats(logits.select(0, 0).select(0, -1));
  if (!next.isfinite().all().item<bool>())
    throw UsageError(expected_got(run.name(), "finite logits", "NaN or infinity"));
  pass->next.assign(numbers_in(next).begin(), numbers_in(next).end());
  for (std::size_t layer = 0; layer < lengths.size(); ++layer) {
    pass->value_lengths.emplace_back();
    const std::int64_t heads = std::ssize(pass->weights.layers()[layer]), groups = lengths[layer].size(0);
    for (std::int64_t head = 0; head < heads; ++head) {
      const at::Tensor of_head = lengths[layer].select(0, head * groups / heads).contiguous();
      pass->value_lengths.back().emplace_back(numbers_in(of_head).begin(), numbers_in(of_head).end());
    }
  }
  pass->seconds = seconds_since(begin);
  return pass;
}

bool has_scores(const ViewedRun& run) {
  std::int64_t layers = 0;
  for (const nn::HookPoint& point : run.model()->hook_points())
    layers += point.place == nn::HookPlace::scores && !point.memory;
  return layers == run.model()->options().layers;
}

std::shared_ptr<const HeadMaps> view_scores(const ViewedRun& run, const ViewedText& text,
                                            std::span<const interpret::HeadEdit> edits,
                                            const interpret::HeadOutputs& own, const interpret::HeadOutputs& other) {
  const torch::NoGradGuard no_gradient;
  expect_place(run, nn::HookPlace::scores, "heads with scores in every layer");
  const auto scores = std::make_shared<HeadMaps>(static_cast<std::int64_t>(text.tokens.size()));
  nn::Hooks hooks;
  interpret::edit_heads(hooks, edits, own, other);
  hooks.read(nn::HookPlace::scores, collecting(*scores, run, text));
  run.model()->forward(batch_of(text), {.hooks = &hooks});
  return scores;
}

}  // namespace cogwheel::serve
