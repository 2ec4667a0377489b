// What hooks see and write, over every kind of layer and pass: reading changes no bit, a write in place is the same
// value returned, and neither reaches weights or other values.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/core/error.h"
#include "cogwheel/tasks/encoders/encoder.h"
#include "cogwheel/tasks/images/u_vit.h"
#include "cogwheel/tasks/language/language_model.h"

namespace cogwheel::tasks::language::hooked_pass_test {
namespace {

using Pass = std::function<at::Tensor(const nn::Hooks* hooks)>;

at::Tensor normal(at::IntArrayRef sizes, std::uint64_t seed) {
  return torch::randn(sizes, at::make_generator<at::CPUGeneratorImpl>(seed));
}

at::Tensor whole(std::int64_t limit, at::IntArrayRef sizes) {
  return torch::randint(0, limit, sizes, at::make_generator<at::CPUGeneratorImpl>(9), at::kLong);
}

// Small weights are made large enough that every value matters.
template <class Model, class Options>
Model make(const Options& options) {
  Model model(options);
  model->initialize(5);
  const torch::NoGradGuard no_grad;
  std::uint64_t seed = 100;
  for (auto& parameter : model->named_parameters())
    if (parameter.key().find("lambda") == std::string::npos)
      parameter.value().add_(normal(parameter.value().sizes(), ++seed), 0.1);
  return model;
}

struct Variant {
  std::string position = "learned", recurrent_layer = "paper";
  std::int64_t key_value_heads = 0;
};

LanguageModel language_model(const std::string& mechanism, const Variant& variant) {
  return make<LanguageModel>(LanguageModelOptions{.vocabulary = 30,
                                                  .context = 16,
                                                  .layers = 2,
                                                  .heads = 4,
                                                  .key_value_heads = variant.key_value_heads,
                                                  .width = 32,
                                                  .activation = variant.position == "rotary" ? "swiglu" : "gelu",
                                                  .position = variant.position,
                                                  .mechanism = mechanism,
                                                  .recurrent_layer = variant.recurrent_layer});
}

std::vector<Variant> variants_of(const Mechanism& mechanism) {
  if (mechanism.recurrent() != nullptr) return {{}, {.recurrent_layer = "plain"}};
  if (mechanism.ties_keys || mechanism.is_matrix()) return {{}, {.position = "rotary"}};
  return {{}, {.position = "rotary", .key_value_heads = 2}};
}

template <class Model>
std::vector<at::Tensor> weights_of(Model& model) {
  std::vector<at::Tensor> weights;
  for (const at::Tensor& parameter : model->parameters()) weights.push_back(parameter.detach().clone());
  return weights;
}

const nn::HookPlaceDescription& description_of(const nn::HookPoint& point) {
  return nn::hook_places()[static_cast<std::size_t>(point.place)];
}

std::optional<std::int64_t> layer_of(const nn::HookPoint& point) {
  return point.layer < 0 ? std::nullopt : std::optional(point.layer);
}

// Reads, and hands back copies, at every point together.
nn::Hooks all_of(const std::vector<nn::HookPoint>& points, bool replacing) {
  nn::Hooks hooks;
  for (const nn::HookPoint& point : points)
    if (replacing && description_of(point).replaceable)
      hooks.replace(
          point.place, [](const nn::HookPoint&, const at::Tensor& value) { return value.clone(); }, layer_of(point));
    else
      hooks.read(
          point.place, [](const nn::HookPoint&, const at::Tensor&) {}, layer_of(point));
  return hooks;
}

// Another value of the same kind: weights and scores stay finite, scales above 0.
at::Tensor other_than(const at::Tensor& value) { return value * 0.5 + 0.03; }

struct Watched {
  std::string what;
  std::vector<nn::HookPoint> points;
  Pass pass;
};

void expect_reading_changes_nothing(const Watched& watched) {
  const torch::NoGradGuard no_grad;
  const at::Tensor expected = watched.pass(nullptr);
  for (const bool replacing : {false, true}) {
    const nn::Hooks hooks = all_of(watched.points, replacing);
    EXPECT_TRUE(watched.pass(&hooks).equal(expected)) << watched.what << (replacing ? ", own values" : ", reading");
  }
}

// At one point after another, returned alone, and in place beside readers of every other point.
void expect_writes_in_place_to_be_returned_values(const Watched& watched, std::int64_t layers = 5) {
  const torch::NoGradGuard no_grad;
  for (const nn::HookPoint& point : watched.points) {
    if (!description_of(point).replaceable || point.layer >= layers) continue;
    const std::string what = watched.what + " " + point.name();
    const auto run = [&](bool in_place, bool watching) {
      nn::Hooks hooks = watching ? all_of(watched.points, true) : nn::Hooks();
      std::vector<at::Tensor> kept, copies;
      hooks.replace(
          point.place,
          [&](const nn::HookPoint&, const at::Tensor& value) {
            at::Tensor own = value;
            return in_place ? own.copy_(other_than(value)) : other_than(value);
          },
          layer_of(point));
      // What was read before the write, and elsewhere, stays as it was.
      for (const nn::HookPoint& each : watched.points)
        hooks.read(
            each.place,
            [&](const nn::HookPoint&, const at::Tensor& value) {
              kept.push_back(value);
              copies.push_back(value.clone());
            },
            layer_of(each));
      const at::Tensor output = watched.pass(&hooks);
      for (std::size_t index = 0; index < kept.size(); ++index)
        EXPECT_TRUE(kept[index].equal(copies[index]) || copies[index].isnan().any().item<bool>())
            << what << " " << index;
      return output;
    };
    try {
      const at::Tensor returned = run(false, false);
      EXPECT_TRUE(run(true, true).equal(returned)) << what;
    } catch (const UsageError&) {
      // Scores of functions of the whole matrix are as they are, in place too.
      EXPECT_EQ(point.place, nn::HookPlace::scores) << what;
      EXPECT_THROW(run(true, false), UsageError) << what;
    }
  }
}

std::vector<nn::HookPoint> without(std::vector<nn::HookPoint> points, std::initializer_list<nn::HookPlace> places) {
  std::erase_if(points, [&](const nn::HookPoint& point) {
    return std::find(places.begin(), places.end(), point.place) != places.end();
  });
  return points;
}

// One pass over all tokens, and the last tokens after a state.
std::vector<Watched> passes_of(LanguageModel& model, const Mechanism& mechanism, const std::string& what) {
  const at::Tensor tokens = whole(30, {2, 9});
  std::vector<Watched> watched{{what, model->hook_points(), [&model, tokens](const nn::Hooks* hooks) {
                                  return model->forward(tokens, {.hooks = hooks});
                                }}};
  if (!model->can_decode()) return watched;
  // A law keeps no keys of the tokens before.
  const std::vector<nn::HookPoint> points =
      mechanism.recurrent() == nullptr
          ? model->hook_points()
          : without(model->hook_points(), {nn::HookPlace::pattern, nn::HookPlace::row_statistics});
  watched.push_back({what + " with a state", points, [&model, tokens](const nn::Hooks* hooks) {
                       nn::ModelState state = model->make_state(2);
                       model->forward(tokens.slice(1, 0, 6), {.state = &state});
                       return model->forward(tokens.slice(1, 6), {.state = &state, .hooks = hooks});
                     }});
  return watched;
}

TEST(HookedPass, OfEveryMechanismIsThePassItself) {
  for (const Mechanism& mechanism : all_mechanisms())
    for (const Variant& variant : variants_of(mechanism)) {
      const std::string name(mechanism.description.name);
      LanguageModel model = language_model(name, variant);
      for (const Watched& watched :
           passes_of(model, mechanism, name + " " + variant.position + " " + variant.recurrent_layer))
        expect_reading_changes_nothing(watched);
    }
}

TEST(HookedPass, TakesWritesInPlaceAsReturnedValues) {
  std::vector<std::string> names{"softmax",      "cog",
                                 "consmax",      "norm",
                                 "differential", "centered",
                                 "symmetric",    "differential_symmetric",
                                 "polynomial",   "matrix_exponential_by_row"};
  for (const Mechanism& mechanism : mechanisms())
    if (mechanism.recurrent() != nullptr) names.emplace_back(mechanism.description.name);
  for (const std::string& name : names) {
    const Mechanism& mechanism = find_mechanism(name);
    for (const Variant& variant : variants_of(mechanism)) {
      if (variant.recurrent_layer == "plain") continue;  // the same hooks around fewer pieces
      LanguageModel model = language_model(name, variant);
      const std::vector<at::Tensor> weights = weights_of(model);
      for (const Watched& watched :
           passes_of(model, mechanism, name + " " + variant.position + " " + variant.recurrent_layer))
        expect_writes_in_place_to_be_returned_values(watched, 1);
      const std::vector<at::Tensor> after = model->parameters();
      for (std::size_t index = 0; index < weights.size(); ++index)
        EXPECT_TRUE(weights[index].equal(after[index])) << name;
    }
  }
}

// Where every token sees every other: padded and packed.
TEST(HookedPass, OfPaddedAndPackedSequencesIsThePassItself) {
  const at::Tensor tokens = whole(30, {2, 9});
  const at::Tensor packed = tokens.reshape({1, 18}), ends = at::tensor({0, 5, 11, 18}, at::kLong),
                   lengths = at::tensor({4, 9}, at::kLong);
  for (const Mechanism& mechanism : all_mechanisms()) {
    if (mechanism.recurrent() != nullptr) continue;
    const std::string name(mechanism.description.name);
    encoders::EncoderOptions options;
    options.vocabulary = 30, options.context = 12, options.layers = 2, options.heads = 4, options.width = 32;
    options.mechanism = name;
    encoders::Encoder model = make<encoders::Encoder>(options);
    const std::vector<Watched> passes{
        {name + " padded", model->hook_points(),
         [&](const nn::Hooks* hooks) { return model->states(tokens, {}, {.lengths = lengths, .hooks = hooks}); }},
        {name + " packed", model->hook_points(),
         [&](const nn::Hooks* hooks) { return model->states(packed, {}, {.cu_seqlens = ends, .hooks = hooks}); }}};
    const bool one_of_a_kind = name == "cog" || name == "differential" || name == "symmetric" || name == "polynomial";
    for (const Watched& watched : passes) {
      expect_reading_changes_nothing(watched);
      if (one_of_a_kind) expect_writes_in_place_to_be_returned_values(watched);
    }
  }
}

TEST(HookedPass, OfALayerWithAMemoryIsThePassItself) {
  for (const std::string mechanism : {"cog", "differential"}) {
    const nn::AttentionLayerOptions attention{.width = 32, .heads = 4, .mechanism = mechanism};
    nn::TransformerBlock block(nn::TransformerBlockOptions{
        .attention = attention, .memory_attention = attention, .feed_forward = {.width = 32, .hidden = 64}});
    block->initialize(nn::WeightInitializer(3), "block", 0.3, 0.3);
    const at::Tensor x = normal({2, 5, 32}, 1), memory = normal({2, 7, 32}, 2), lengths = at::tensor({3, 7}, at::kLong);
    std::vector<nn::HookPoint> points;
    for (std::size_t place = 0; place < nn::hook_places().size(); ++place)
      if (block->has_hook(static_cast<nn::HookPlace>(place)))
        points.push_back({.place = static_cast<nn::HookPlace>(place)});
    // Places of both attentions run twice.
    const Watched watched{
        mechanism + " with a memory", points, [&](const nn::Hooks* hooks) {
          return block->forward({x}, {.memory = memory, .memory_lengths = lengths, .hooks = hooks}).total();
        }};
    expect_reading_changes_nothing(watched);
    expect_writes_in_place_to_be_returned_values(watched);
  }
}

TEST(HookedPass, OfAUVitIsThePassItself) {
  images::UVitOptions options;
  options.layers = 5, options.heads = 2, options.width = 16;
  options.image_size = 8, options.channels = 3, options.patch = 4;
  for (const std::string mechanism : {"cog", "differential"}) {
    options.mechanism = mechanism;
    images::UVit model = make<images::UVit>(options);
    const at::Tensor x = normal({2, 3, 8, 8}, 3), time = at::tensor({3.5, 900.0}, at::kFloat);
    const Watched watched{"U-ViT", model->hook_points(),
                          [&](const nn::Hooks* hooks) { return model->forward(x, time, {}, {.hooks = hooks}); }};
    expect_reading_changes_nothing(watched);
    expect_writes_in_place_to_be_returned_values(watched);
  }
}

}  // namespace
}  // namespace cogwheel::tasks::language::hooked_pass_test
