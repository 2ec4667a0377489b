// Patching against whole passes in which every value is put there by hand.
#include "cogwheel/interpret/patching.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "cogwheel/core/error.h"
#include "cogwheel/interpret/logit_attribution.h"
#include "cogwheel/interpret/path_patching.h"
#include "interpret/small_models.h"
#include "support/usage_error_of.h"

namespace cogwheel::interpret {
namespace {

const std::vector<SmallModel> small_models{
    {"gpt", "softmax"}, {"gpt", "cog"}, {"llama", "softmax", 2}, {"llama", "differential"}, {"gpt", "symmetric"}};

double difference_of(tasks::language::LanguageModel& model, const at::Tensor& tokens, const Prompts& prompts,
                     const nn::Hooks& hooks) {
  return logit_difference(model->forward(tokens, {.hooks = &hooks}), prompts).mean().item<double>();
}

nn::HookPlace sent_place(tasks::language::LanguageModel& model) {
  return model->layers().front()->has_hook(nn::HookPlace::normed_heads) ? nn::HookPlace::normed_heads
                                                                        : nn::HookPlace::heads;
}

std::map<std::int64_t, at::Tensor> values_of(tasks::language::LanguageModel& model, const at::Tensor& tokens,
                                             nn::HookPlace place) {
  std::map<std::int64_t, at::Tensor> values;
  nn::Hooks hooks;
  hooks.read(place, [&](const nn::HookPoint& at, const at::Tensor& value) { values[at.layer] = value.clone(); });
  model->forward(tokens, {.hooks = &hooks});
  return values;
}

// What heads say in both passes, by layer.
struct SentValues {
  nn::HookPlace place;
  std::map<std::int64_t, at::Tensor> clean, corrupted;
  at::Tensor end;

  SentValues(tasks::language::LanguageModel& model, const Prompts& prompts, const at::Tensor& other)
      : place(sent_place(model)),
        clean(values_of(model, prompts.tokens, place)),
        corrupted(values_of(model, other, place)),
        end(prompts.end) {}

  // All attention as in the clean pass, but for one head at the last token of each prompt.
  nn::Hooks frozen_but(std::int64_t layer, std::int64_t head) const {
    nn::Hooks hooks;
    hooks.replace(place, [this, layer, head](const nn::HookPoint& at, const at::Tensor&) {
      at::Tensor value = clean.at(at.layer).clone();
      if (at.layer == layer)
        for (std::int64_t prompt = 0; prompt < end.size(0); ++prompt) {
          const auto last = end[prompt].item<std::int64_t>();
          value[prompt][last][head] = corrupted.at(layer)[prompt][last][head];
        }
      return value;
    });
    return hooks;
  }
};

TEST(PathPatching, EqualsWholePassesWithAllOtherAttentionFrozen) {
  const torch::NoGradGuard no_gradient;
  const Prompts prompts = small_prompts();
  const at::Tensor corrupted = other_tokens();
  for (const SmallModel& small : small_models) {
    SCOPED_TRACE(small.form + " " + small.mechanism);
    tasks::language::LanguageModel model = make_small(small);
    const SentValues sent(model, prompts, corrupted);
    const PathPatching found = patch_paths(*model, prompts, corrupted);
    EXPECT_NEAR(found.clean, difference_of(model, prompts.tokens, prompts, {}), 1e-12);
    for (std::int64_t layer = 0; layer < found.patched.size(0); ++layer)
      for (std::int64_t head = 0; head < found.patched.size(1); ++head)
        EXPECT_NEAR(found.patched[layer][head].item<double>(),
                    difference_of(model, prompts.tokens, prompts, sent.frozen_but(layer, head)), 1e-9)
            << layer << " " << head;

    // Without feed-forward networks in between, the change is what the head writes, seen by the last norm alone.
    nn::Hooks keeps;
    const auto feed_forward = values_of(model, prompts.tokens, nn::HookPlace::feed_forward_output);
    const PathPatching direct = patch_paths(*model, prompts, corrupted, {.freeze_feed_forward = true});
    nn::Hooks both = sent.frozen_but(0, 1);
    both.replace(nn::HookPlace::feed_forward_output,
                 [&](const nn::HookPoint& at, const at::Tensor&) { return feed_forward.at(at.layer); });
    EXPECT_NEAR(direct.patched[0][1].item<double>(), difference_of(model, prompts.tokens, prompts, both), 1e-9);
    EXPECT_GT((direct.patched - found.patched).abs().max().item<double>(), 1e-6);
  }
}

TEST(PathPatching, ReceiversHearWhatWasSentAndTheRestFollows) {
  const torch::NoGradGuard no_gradient;
  const Prompts prompts = small_prompts();
  const at::Tensor corrupted = other_tokens();
  for (const SmallModel& small : small_models) {
    SCOPED_TRACE(small.form + " " + small.mechanism);
    tasks::language::LanguageModel model = make_small(small);
    const SentValues sent(model, prompts, corrupted);
    const std::vector<PathReceiver> receivers{{nn::HookPlace::query_input, 1, 3}, {nn::HookPlace::value_input, 2, 0}};
    const PathPatching found = patch_paths(*model, prompts, corrupted, {.receivers = receivers});
    EXPECT_TRUE(found.patched[2].isnan().all().item<bool>());  // the last layer speaks to none of them
    for (const std::int64_t layer : {0, 1})
      for (const std::int64_t head : {0, 1}) {
        std::map<nn::HookPlace, at::Tensor> heard;
        nn::Hooks sends = sent.frozen_but(layer, head);
        for (const PathReceiver& receiver : receivers)
          sends.read(
              receiver.place,
              [&](const nn::HookPoint& at, const at::Tensor& value) { heard[at.place] = value.clone(); },
              receiver.layer);
        model->forward(prompts.tokens, {.hooks = &sends});
        nn::Hooks receives;
        for (const PathReceiver& receiver : receivers)
          if (receiver.layer > layer)
            receives.replace(
                receiver.place,
                [&, receiver](const nn::HookPoint& at, const at::Tensor& value) {
                  at::Tensor changed = value.clone();
                  for (std::int64_t prompt = 0; prompt < prompts.size(); ++prompt) {
                    const auto end = prompts.end[prompt].item<std::int64_t>();
                    changed[prompt][end][receiver.head] = heard.at(at.place)[prompt][end][receiver.head];
                  }
                  return changed;
                },
                receiver.layer);
        EXPECT_NEAR(found.patched[layer][head].item<double>(), difference_of(model, prompts.tokens, prompts, receives),
                    1e-9)
            << layer << " " << head;
      }
  }
}

TEST(ActivationPatching, EqualsAWholePassWithTheValueReplaced) {
  const torch::NoGradGuard no_gradient;
  const Prompts prompts = small_prompts();
  const at::Tensor corrupted = other_tokens();
  for (const SmallModel& small : small_models) {
    SCOPED_TRACE(small.form + " " + small.mechanism);
    tasks::language::LanguageModel model = make_small(small);
    struct Case {
      nn::HookPlace place;
      std::int64_t head_dimension, token_dimension;
    };
    for (const Case& each : {Case{nn::HookPlace::stream_before, -1, 1}, Case{nn::HookPlace::heads, 2, 1},
                             Case{nn::HookPlace::query, 2, 1}, Case{nn::HookPlace::value, 2, 1},
                             Case{nn::HookPlace::pattern, 1, 2}, Case{nn::HookPlace::feed_forward_output, -1, 1}})
      for (const bool by_token : {false, true}) {
        const Patching found = patch_activations(*model, prompts, corrupted, {each.place, by_token});
        const auto clean = values_of(model, prompts.tokens, each.place);
        const std::int64_t layer = 1, head = each.head_dimension < 0 ? 0 : 1, token = by_token ? 4 : 0;
        nn::Hooks hooks;
        hooks.replace(
            each.place,
            [&](const nn::HookPoint&, const at::Tensor& value) {
              at::Tensor changed = value.clone(), to = changed, from = clean.at(layer);
              if (each.head_dimension >= 0)
                to = to.narrow(each.head_dimension, head, 1), from = from.narrow(each.head_dimension, head, 1);
              if (by_token)
                to = to.narrow(each.token_dimension, token, 1), from = from.narrow(each.token_dimension, token, 1);
              to.copy_(from);
              return changed;
            },
            layer);
        EXPECT_NEAR(found.patched[layer][head][token].item<double>(), difference_of(model, corrupted, prompts, hooks),
                    1e-9);
        EXPECT_EQ(found.patched.size(2), by_token ? 9 : 1);
        // The whole stream before the first layer brings everything back.
        if (each.place == nn::HookPlace::stream_before && !by_token) {
          EXPECT_NEAR(found.restored()[0][0][0].item<double>(), 1, 1e-9);
        }
      }
  }
}

TEST(AttributionPatching, IsTheDerivativeOfPatching) {
  const Prompts prompts = small_prompts();
  const at::Tensor corrupted = other_tokens();
  for (const SmallModel& small : small_models) {
    SCOPED_TRACE(small.form + " " + small.mechanism);
    tasks::language::LanguageModel model = make_small(small);
    for (const nn::HookPlace place :
         {nn::HookPlace::heads, nn::HookPlace::stream_before, nn::HookPlace::pattern, nn::HookPlace::scores}) {
      const Patching found = attribute_patches(*model, prompts, corrupted, {place, true});
      const auto clean = values_of(model, prompts.tokens, place);
      const bool of_weights = place == nn::HookPlace::pattern || place == nn::HookPlace::scores,
                 has_heads = place != nn::HookPlace::stream_before;
      const std::int64_t layer = 1, head = has_heads ? 1 : 0, token = 3;
      const auto moved = [&](double share) {
        nn::Hooks hooks;
        hooks.replace(
            place,
            [&](const nn::HookPoint&, const at::Tensor& value) {
              at::Tensor changed = value.detach().clone(), to = changed, from = clean.at(layer).detach();
              if (has_heads)
                to = to.narrow(of_weights ? 1 : 2, head, 1), from = from.narrow(of_weights ? 1 : 2, head, 1);
              to = to.narrow(of_weights ? 2 : 1, token, 1), from = from.narrow(of_weights ? 2 : 1, token, 1);
              to.copy_(at::where(to == from, to, to + share * (from - to)));
              return changed;
            },
            layer);
        return difference_of(model, corrupted, prompts, hooks);
      };
      EXPECT_NEAR(found.patched[layer][head][token].item<double>() - found.corrupted,
                  (moved(1e-5) - moved(-1e-5)) / 2e-5, 1e-6);
    }
  }
}

TEST(LogitAttribution, SumsToTheLogitDifference) {
  const Prompts prompts = small_prompts();
  for (const SmallModel& small : small_models) {
    SCOPED_TRACE(small.form + " " + small.mechanism);
    tasks::language::LanguageModel model = make_small(small);
    const LogitAttribution found = attribute_logits(*model, prompts);
    const at::Tensor wanted = logit_difference(model->forward(prompts.tokens).detach(), prompts);
    EXPECT_LT((found.values.sum(0) - wanted).abs().max().item<double>(), 1e-9);
    EXPECT_EQ(std::ssize(found.parts), found.values.size(0));
    EXPECT_NE(std::find(found.parts.begin(), found.parts.end(), "L2H1"), found.parts.end());
    EXPECT_EQ(std::find(found.parts.begin(), found.parts.end(), "position embedding") != found.parts.end(),
              small.form == "gpt");
  }
}

TEST(Patching, RefusesWhatItCannotDo) {
  tasks::language::LanguageModel model = make_small({"gpt", "softmax"});
  const Prompts prompts = small_prompts();
  const at::Tensor corrupted = other_tokens();
  Prompts wrong = prompts;
  wrong.answer = torch::tensor({1, 2, 3, 4, 23}, at::kLong);
  EXPECT_EQ(usage_error_of([&] { patch_paths(*model, wrong, corrupted); }),
            "prompts: answer: expected 0 to 22, got 23");
  EXPECT_EQ(usage_error_of([&] { patch_paths(*model, prompts, corrupted.slice(1, 1)); }),
            "prompts: corrupted tokens: expected int64 [5, 9], got [5, 8]");
  EXPECT_EQ(usage_error_of([&] {
              patch_paths(*model, prompts, corrupted, {.receivers = {{nn::HookPlace::query_input, 3, 0}}});
            }),
            "path patching: layer of a receiver: expected 0 to 2, got 3");
  EXPECT_EQ(usage_error_of([&] {
              patch_paths(*model, prompts, corrupted, {.receivers = {{nn::HookPlace::query_input, 2, 4}}});
            }),
            "path patching: head of blocks.2.hook_q_input: expected 0 to 3, got 4");
  EXPECT_EQ(usage_error_of([&] {
              patch_activations(*model, prompts, corrupted, {nn::HookPlace::logits, false});
            }),
            "patching: place: expected one of layers that can be replaced, got hook_logits");
  Prompts same = prompts;
  same.foil = same.answer;
  EXPECT_EQ(usage_error_of([&] { patch_paths(*model, same, corrupted).change(); }),
            "path patching: mean logit difference of the clean prompts: expected another number than 0, got 0.000000");
  EXPECT_EQ(usage_error_of([&] { patch_activations(*model, same, corrupted).restored(); }),
            "patching: expected prompts whose logit differences the corruption changes, got 0.000000 for both");
  nn::Hooks hooks;
  hooks.supply(
      nn::HookPlace::attention_output,
      [](const nn::HookPoint&) {
        return at::zeros({1, 1, 32}, at::kDouble);
      },
      1);
  EXPECT_EQ(usage_error_of([&] { model->forward(corrupted, {.hooks = &hooks}); }),
            "blocks.1.hook_attn_out: expected a tensor of shape [5, 9, 32], got [1, 1, 32]");
  EXPECT_EQ(
      usage_error_of([&] { hooks.supply(nn::HookPlace::heads, [](const nn::HookPoint&) { return at::Tensor(); }); }),
      "hooks: supply: expected hook_attn_out or hook_mlp_out, got attn.hook_z");
}

}  // namespace
}  // namespace cogwheel::interpret
