// The layer against its formulas, written out with dense float64 matrices.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>

#include "cogwheel/attention/authoring/argument_names.h"
#include "cogwheel/attention/kernels/pairwise/row_statistics.h"
#include "cogwheel/nn/weights/matrix_product.h"
#include "cogwheel/nn/weights/new_parameter.h"
#include "hooked.h"
#include "support/usage_error_of.h"

namespace cogwheel::nn::attention_layer_test {
namespace {

constexpr std::int64_t batch = 2, tokens = 7, width = 32, heads = 4, head_dim = width / heads;

AttentionLayer make_layer(const std::string& mechanism, std::int64_t layer = 2, bool bias = true,
                          std::int64_t first_lambda_depth = 0) {
  AttentionLayer attention(AttentionLayerOptions{.width = width,
                                                 .heads = heads,
                                                 .mechanism = mechanism,
                                                 .layer = layer,
                                                 .first_lambda_depth = first_lambda_depth,
                                                 .projection_bias = bias,
                                                 .output_bias = bias});
  attention->initialize(WeightInitializer(7), "attention", 0.5, 0.5);
  attention->to(at::kDouble);
  return attention;
}

at::Tensor input() {
  return torch::randn({batch, tokens, width}, at::make_generator<at::CPUGeneratorImpl>(3), at::kDouble);
}

at::Tensor linear(AttentionLayer& layer, const std::string& name, const at::Tensor& x) {
  const auto parameters = layer->named_parameters();
  const at::Tensor product = x.matmul(parameters[name + ".weight"].t());
  return parameters.contains(name + ".bias") ? product + parameters[name + ".bias"] : product;
}

at::Tensor heads_of(const at::Tensor& x, std::int64_t count) {
  return x.reshape({batch, tokens, count, x.size(-1) / count}).permute({0, 2, 1, 3});
}

at::Tensor joined(const at::Tensor& x) { return x.permute({0, 2, 1, 3}).reshape({batch, tokens, width}); }

at::Tensor scores(const at::Tensor& query, const at::Tensor& key) {
  return query.matmul(key.transpose(-1, -2)) / std::sqrt(static_cast<double>(query.size(-1)));
}

at::Tensor hidden() { return at::ones({tokens, tokens}, at::kBool).triu(1); }

at::Tensor softmax_weights(const at::Tensor& score) {
  const at::Tensor exponential = score.exp().masked_fill(hidden(), 0);
  return exponential / exponential.sum(-1, true);
}

at::Tensor cog_weights(const at::Tensor& score) {
  const at::Tensor exponentials = score.abs().exp().masked_fill(hidden(), 0);
  return score.sign() * exponentials / exponentials.sum(-1, true);
}

TEST(AttentionLayer, SoftmaxAndCogAreProjectionsAroundTheRowMap) {
  const at::Tensor x = input();
  for (const std::string mechanism : {"softmax", "cog"}) {
    AttentionLayer layer = make_layer(mechanism);
    const auto parts = linear(layer, "query_key_value", x).chunk(3, -1);
    const at::Tensor score = scores(heads_of(parts[0], heads), heads_of(parts[1], heads));
    const at::Tensor weights = mechanism == "cog" ? cog_weights(score) : softmax_weights(score);
    const at::Tensor expected = linear(layer, "output", joined(weights.matmul(heads_of(parts[2], heads))));
    EXPECT_TRUE(at::allclose(layer(x), expected, 1e-9, 1e-11)) << mechanism;
    EXPECT_TRUE(at::allclose(weights_of(layer, x), weights, 1e-9, 1e-11)) << mechanism;
  }
}

TEST(AttentionLayer, SymmetricHasNoKeyProjection) {
  AttentionLayer layer = make_layer("symmetric");
  const at::Tensor x = input();
  const auto parts = linear(layer, "query_value", x).chunk(2, -1);
  const at::Tensor query = heads_of(parts[0], heads);
  const at::Tensor weights = softmax_weights(scores(query, query));
  const at::Tensor expected = linear(layer, "output", joined(weights.matmul(heads_of(parts[1], heads))));
  EXPECT_TRUE(at::allclose(layer(x), expected, 1e-9, 1e-11));
  EXPECT_TRUE(at::allclose(weights_of(layer, x), weights, 1e-9, 1e-11));
}

TEST(AttentionLayer, DifferentialHalvesItsHeadsAndNormalisesEach) {
  for (const std::int64_t depth : {0, 3}) {
    AttentionLayer layer = make_layer("differential", depth);
    const auto parameters = layer->named_parameters();
    const at::Tensor x = input();
    const auto parts = linear(layer, "query_key_value", x).chunk(3, -1);
    const at::Tensor query = heads_of(parts[0], heads), key = heads_of(parts[1], heads),
                     value = heads_of(parts[2], heads / 2);
    const double lambda_init = 0.8 - 0.6 * std::exp(-0.3 * static_cast<double>(depth));
    const at::Tensor lambda = (parameters["lambda_query1"] * parameters["lambda_key1"]).sum().exp() -
                              (parameters["lambda_query2"] * parameters["lambda_key2"]).sum().exp() + lambda_init;
    const at::Tensor both = softmax_weights(scores(query, key)).reshape({batch, heads / 2, 2, tokens, tokens});
    const at::Tensor weights = both.select(2, 0) - lambda * both.select(2, 1);
    at::Tensor output = weights.matmul(value);
    output = output / (output.square().mean(-1, true) + 1e-5).sqrt() * parameters["head_norm"] * (1 - lambda_init);
    EXPECT_TRUE(at::allclose(layer(x), linear(layer, "output", joined(output)), 1e-9, 1e-11)) << depth;
    EXPECT_TRUE(at::allclose(weights_of(layer, x), weights, 1e-9, 1e-11)) << depth;
    EXPECT_EQ(weights_of(layer, x).size(1), heads / 2);
    EXPECT_EQ(parameters["lambda_query1"].numel(), head_dim);
    EXPECT_TRUE(at::allclose(layer->lambda()->whole, lambda));
  }
}

TEST(AttentionLayer, DifferentialOverAnotherMapWithTiedKeys) {
  for (const std::string mechanism : {"differential_cog", "differential_symmetric", "differential_symmetric_cog"}) {
    const bool tied = mechanism.find("symmetric") != std::string::npos;
    const bool cog = mechanism.find("cog") != std::string::npos;
    AttentionLayer layer = make_layer(mechanism, 1);
    const auto parameters = layer->named_parameters();
    const at::Tensor x = input();
    const auto parts = linear(layer, tied ? "query_value" : "query_key_value", x).chunk(tied ? 2 : 3, -1);
    const at::Tensor query = heads_of(parts[0], heads), key = tied ? query : heads_of(parts[1], heads);
    const at::Tensor score = scores(query, key);
    const at::Tensor both =
        (cog ? cog_weights(score) : softmax_weights(score)).reshape({batch, heads / 2, 2, tokens, tokens});
    const double lambda_init = 0.8 - 0.6 * std::exp(-0.3);
    const at::Tensor lambda = (parameters["lambda_query1"] * parameters["lambda_key1"]).sum().exp() -
                              (parameters["lambda_query2"] * parameters["lambda_key2"]).sum().exp() + lambda_init;
    const at::Tensor weights = both.select(2, 0) - lambda * both.select(2, 1);
    at::Tensor output = weights.matmul(heads_of(parts.back(), heads / 2));
    output = output / (output.square().mean(-1, true) + 1e-5).sqrt() * parameters["head_norm"] * (1 - lambda_init);
    EXPECT_TRUE(at::allclose(layer(x), linear(layer, "output", joined(output)), 1e-9, 1e-11)) << mechanism;
    EXPECT_TRUE(at::allclose(weights_of(layer, x), weights, 1e-9, 1e-11)) << mechanism;
  }
}

// Means over batch and queries of the row statistics, computed here from the weights themselves.
TEST(AttentionLayer, ObservesItsHeads) {
  const at::Tensor x = input();
  for (const std::string mechanism : {"softmax", "cog", "symmetric", "centered", "differential", "polynomial"}) {
    AttentionLayer layer = make_layer(mechanism);
    const at::Tensor weights = weights_of(layer, x).detach(), sizes = weights.abs(), total = sizes.sum(-1);
    const bool difference = mechanism == "differential", tied = mechanism == "symmetric" || mechanism == "polynomial";
    const at::Tensor value =
        heads_of(linear(layer, tied ? "query_value" : "query_key_value", x).chunk(tied ? 2 : 3, -1).back(),
                 difference ? heads / 2 : heads)
            .detach();
    const at::Tensor shares = sizes / total.unsqueeze(-1).clamp_min(1e-30);
    // Without the first query, which sees one key; for kurtosis without those that see fewer than 8.
    const std::int64_t queries = weights.size(2);
    const auto later = [&](const at::Tensor& rows) { return rows.narrow(2, 1, queries - 1); };
    const at::Tensor entropy = -at::xlogy(shares, shares).sum(-1), seen = at::arange(1, queries + 1, at::kDouble);
    const at::Tensor visible = at::ones({queries, queries}, at::kDouble).tril();
    const at::Tensor away =
        (weights - weights.sum(-1, true) / seen.unsqueeze(-1)) * visible;  // from the mean over visible keys
    const at::Tensor kurtosis = (away.pow(4).sum(-1) / seen) / (away.pow(2).sum(-1) / seen).square();
    const at::Tensor signs = later(weights.sign()).sum({0, 2, 3}).abs() / later(weights.sign().abs()).sum({0, 2, 3});
    const auto lambda_of = [&](double HeadStatistics::*member) -> at::Tensor {
      if (!difference) return at::full_like(total, HeadStatistics::none);
      const auto parameters = layer->named_parameters();
      const auto part = [&](const char* query, const char* key) {
        return (parameters[query] * parameters[key]).sum().exp().item<double>();
      };
      const double one = part("lambda_query1", "lambda_key1"), two = part("lambda_query2", "lambda_key2"),
                   init = 0.8 - 0.6 * std::exp(-0.6);
      return at::full_like(total, member == &HeadStatistics::lambda_1      ? one
                                  : member == &HeadStatistics::lambda_2    ? two
                                  : member == &HeadStatistics::lambda_init ? init
                                                                           : one - two + init);
    };
    const std::vector<std::pair<double HeadStatistics::*, at::Tensor>> expected{
        {&HeadStatistics::sink, later(sizes.select(-1, 0))},
        {&HeadStatistics::negative_mass, later((-weights).clamp_min(0).sum(-1))},
        {&HeadStatistics::entropy, later(entropy)},
        {&HeadStatistics::normalized_entropy, later(entropy / seen.log())},
        {&HeadStatistics::kurtosis, kurtosis.narrow(2, 7, queries - 7)},
        {&HeadStatistics::positive_share, later((weights > 0).sum(-1) / seen)},
        {&HeadStatistics::sign_consistency, signs.view({1, -1, 1})},
        {&HeadStatistics::sum, later(weights.sum(-1))},
        {&HeadStatistics::abs_sum, later(total)},
        {&HeadStatistics::value_mean, value.mean(-1)},
        {&HeadStatistics::value_bias,
         (value.mean({0, 2}).norm(2, -1) / value.square().sum(-1).mean({0, 2}).sqrt()).view({1, -1, 1})},
        {&HeadStatistics::output_norm, weights.matmul(value).norm(2, -1)},
        {&HeadStatistics::lambda_1, lambda_of(&HeadStatistics::lambda_1)},
        {&HeadStatistics::lambda_2, lambda_of(&HeadStatistics::lambda_2)},
        {&HeadStatistics::lambda_init, lambda_of(&HeadStatistics::lambda_init)},
        {&HeadStatistics::lambda_full, lambda_of(&HeadStatistics::lambda_full)}};
    ASSERT_EQ(expected.size(), head_statistics.size());
    Hooks hooks;
    const HeadObserver observer(hooks);
    EXPECT_TRUE(layer->forward(x, {.hooks = &hooks}).equal(layer(x))) << mechanism;
    const std::vector<HeadStatistics> heads_seen = observer.statistics().at(0);
    ASSERT_EQ(static_cast<std::int64_t>(heads_seen.size()), weights.size(1)) << mechanism;
    for (std::size_t h = 0; h < heads_seen.size(); ++h)
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const double truth = expected[i].second.select(1, static_cast<std::int64_t>(h)).mean().item<double>(),
                     got = heads_seen[h].*expected[i].first;
        EXPECT_EQ(expected[i].first, head_statistics[i].member);
        EXPECT_EQ(std::isnan(got), std::isnan(truth)) << mechanism << ", " << head_statistics[i].name;
        if (!std::isnan(truth)) {
          EXPECT_NEAR(got, truth, 1e-9) << mechanism << ", head " << h << ", " << head_statistics[i].name;
        }
      }
  }
}

TEST(AttentionLayer, LambdaStartsByEitherIndexing) {
  for (const auto& [first, expected] : {std::pair{0, std::vector{0.20, 0.36, 0.47, 0.56, 0.62, 0.67}},
                                        std::pair{1, std::vector{0.36, 0.47, 0.56, 0.62, 0.67, 0.70}}})
    for (std::int64_t depth = 0; depth < 6; ++depth) {
      AttentionLayer layer = make_layer("differential", depth, true, first);
      const torch::NoGradGuard no_grad;
      for (const char* name : {"lambda_query1", "lambda_query2"}) layer->named_parameters()[name].zero_();
      EXPECT_NEAR(layer->lambda()->whole.item<double>(), expected[static_cast<std::size_t>(depth)], 0.005) << depth;
    }
}

// Every entry over softmax, and some over another map: learnable scalars, cosines and a sign among them.
std::vector<std::string> layer_names() {
  auto names = mechanism_names();
  std::erase_if(names, [](const std::string& name) { return find_recurrent_law(name) != nullptr; });
  for (const char* name :
       {"differential_cog", "differential_consmax", "differential_norm", "centered_softmax_off_by_one", "symmetric_cog",
        "symmetric_sigmoid", "differential_symmetric_consmax"})
    names.emplace_back(name);
  return names;
}

TEST(AttentionLayer, EveryParameterLearns) {
  for (const auto& mechanism : layer_names()) {
    AttentionLayer layer = make_layer(mechanism);
    layer(input()).square().sum().backward();
    for (const auto& parameter : layer->named_parameters())
      // A bias of the keys shifts all scores of a row equally, which softmax ignores.
      if (parameter.key().find("bias") == std::string::npos) {
        EXPECT_GT(parameter.value().grad().abs().max().item<double>(), 0) << mechanism << " " << parameter.key();
      }
  }
}

TEST(AttentionLayer, DropsWeights) {
  const at::Tensor x = input();
  for (const std::string mechanism : {"softmax", "cog", "centered", "symmetric", "differential"}) {
    AttentionLayer layer = make_layer(mechanism);
    const torch::NoGradGuard no_grad;
    const Dropout dropout(0.5, 3);
    EXPECT_TRUE(layer(x, ForwardContext{.dropout = Dropout(0, 3)}).equal(layer(x))) << mechanism;
    EXPECT_TRUE(layer(x, ForwardContext{.dropout = dropout}).equal(layer(x, ForwardContext{.dropout = dropout})))
        << mechanism;
    EXPECT_FALSE(
        layer(x, ForwardContext{.dropout = dropout}).equal(layer(x, ForwardContext{.dropout = dropout.part(1)})))
        << mechanism;
    // The first token has one weight, dropped or doubled: its heads' outputs are 0 or twice what they were.
    if (mechanism != "softmax") continue;
    const auto parts = linear(layer, "query_key_value", x).chunk(3, -1);
    const auto output = layer->named_parameters();
    const at::Tensor heads_out = at::linalg_solve(
        output["output.weight"],
        (layer(x, ForwardContext{.dropout = dropout}).select(1, 0) - output["output.bias"]).t());  // [width, batch]
    const at::Tensor ratio = heads_out.t() / parts[2].select(1, 0);
    EXPECT_TRUE(((ratio.abs() < 1e-6) | ((ratio - 2).abs() < 1e-6)).all().item<bool>()) << ratio;
  }
}

TEST(AttentionLayer, TakesNoMemoryOnMeta) {
  for (const auto& mechanism : layer_names()) {
    const PlaceParameters nowhere(at::kMeta);
    for (const auto& parameter :
         AttentionLayer(AttentionLayerOptions{.width = width, .heads = heads, .mechanism = mechanism})->parameters())
      EXPECT_TRUE(parameter.is_meta()) << mechanism;
  }
  EXPECT_EQ(device_of_new_parameters(), at::kCPU);
}

// softmax(Q(x) K(m)ᵀ/√d) V(m), over the tokens of the memory that are not padding.
TEST(AttentionLayer, AttendsToAMemory) {
  const at::Tensor x = input();
  const at::Tensor memory = torch::randn({batch, 5, width}, at::make_generator<at::CPUGeneratorImpl>(4), at::kDouble);
  const at::Tensor lengths = at::tensor({5, 3}, at::kLong);
  AttentionLayer layer(AttentionLayerOptions{.width = width, .heads = heads, .memory = true});
  layer->initialize(WeightInitializer(7), "attention", 0.5, 0.5);
  layer->to(at::kDouble);
  const auto parts = linear(layer, "key_value", memory).chunk(2, -1);
  const auto of_memory = [](const at::Tensor& part) {
    return part.reshape({batch, 5, heads, head_dim}).permute({0, 2, 1, 3});
  };
  const at::Tensor hidden_keys = (at::arange(5) >= lengths.unsqueeze(1)).view({batch, 1, 1, 5});
  const at::Tensor score = scores(heads_of(linear(layer, "query", x), heads), of_memory(parts[0]));
  const at::Tensor attended = score.masked_fill(hidden_keys, -INFINITY).softmax(-1).matmul(of_memory(parts[1]));
  const at::Tensor expected = linear(layer, "output", joined(attended));
  const ForwardContext context{.memory = memory, .memory_lengths = lengths};
  EXPECT_TRUE(at::allclose(layer(x, context), expected, 1e-9, 1e-11));
  // With a state, the memory is projected once and not needed afterwards.
  const std::unique_ptr<LayerState> state = layer->make_state(batch, 1);
  for (std::int64_t n = 0; n < tokens; ++n) {
    ForwardContext step = n == 0 ? context : ForwardContext{};
    step.layer_state = state.get();
    EXPECT_TRUE(at::allclose(layer(x.narrow(1, n, 1), step), expected.narrow(1, n, 1), 1e-9, 1e-11)) << n;
  }
  EXPECT_EQ(state->bytes(), 2 * batch * 5 * width * 8);
  EXPECT_THROW(layer(x), UsageError);
}

TEST(AttentionLayer, KeepsNoMemoryThatItRefused) {
  const at::Tensor x = input();
  AttentionLayer layer(AttentionLayerOptions{.width = width, .heads = heads, .memory = true});
  layer->initialize(WeightInitializer(7), "attention", 0.5, 0.5);
  layer->to(at::kDouble);
  const std::unique_ptr<LayerState> state = layer->make_state(batch, 1);
  ForwardContext context{.memory = x, .memory_lengths = at::tensor({5, 99}, at::kLong)};
  context.layer_state = state.get();
  EXPECT_ANY_THROW(layer(x, context));
  EXPECT_EQ(state->bytes(), 0);
  context.memory_lengths = at::tensor({5, 3}, at::kLong);
  const at::Tensor expected = layer(x, ForwardContext{.memory = x, .memory_lengths = context.memory_lengths});
  EXPECT_TRUE(layer(x, context).equal(expected));
  EXPECT_THROW(state->fork(at::tensor({2}, at::kLong)), c10::ValueError);
  EXPECT_THROW(state->fork(at::tensor({0.5})), c10::ValueError);
}

// A bare layer, without a model that says where tokens stand.
TEST(AttentionLayer, PlacesTokensAfterThoseOfTheirOwnEntry) {
  const at::Tensor x = input();
  AttentionLayer layer(AttentionLayerOptions{.width = width, .heads = heads},
                       std::make_shared<Rotary>(RotaryOptions{head_dim, tokens, RotaryLayout::interleaved, 10000}));
  layer->initialize(WeightInitializer(7), "attention", 0.5, 0.5);
  layer->to(at::kDouble);
  const at::Tensor expected = layer(x);
  const std::unique_ptr<LayerState> state = layer->make_state(batch, tokens);
  ForwardContext context;
  context.layer_state = state.get();
  layer(x.narrow(1, 0, 5), context);
  state->crop(at::tensor({2, 4}, at::kLong));
  const at::Tensor next = layer(at::stack({x[0].narrow(0, 2, 2), x[1].narrow(0, 4, 2)}), context);
  EXPECT_TRUE(at::allclose(next[0], expected[0].narrow(0, 2, 2), 1e-9, 1e-11));
  EXPECT_TRUE(at::allclose(next[1], expected[1].narrow(0, 4, 2), 1e-9, 1e-11));
}

// An observed pass gives the same output as another; a replaced value changes it.
TEST(Hooks, ReadsAndReplaces) {
  const at::Tensor x = input();
  for (const std::string mechanism : {"softmax", "cog", "differential", "polynomial"}) {
    AttentionLayer layer = make_layer(mechanism);
    Hooks reads;
    std::vector<at::Tensor> seen;
    for (const HookPlace place : {HookPlace::query, HookPlace::value, HookPlace::pattern, HookPlace::row_statistics})
      reads.read(place, [&](const HookPoint& site, const at::Tensor& value) {
        EXPECT_FALSE(site.memory);
        seen.push_back(value);
      });
    EXPECT_TRUE(at::allclose(layer(x, ForwardContext{.hooks = &reads}), layer(x), 1e-9, 1e-11)) << mechanism;
    ASSERT_EQ(seen.size(), 4u);
    // In the order of the pass: query, value, the sums of the rows, the weights.
    EXPECT_TRUE(at::allclose(seen[2][RowStatistics<double>::sum_at], seen[3].sum(-1), 1e-9, 1e-11)) << mechanism;
    Hooks zeros;
    zeros.replace(HookPlace::heads, [](const HookPoint&, const at::Tensor& given) { return at::zeros_like(given); });
    EXPECT_TRUE(at::allclose(layer(x, ForwardContext{.hooks = &zeros}), linear(layer, "output", at::zeros_like(x)),
                             1e-9, 1e-11))
        << mechanism;
  }
}

// Weights that are made apart are those of the pass: with dropout, in bfloat16, of grouped heads, of a memory.
TEST(Hooks, WeightsAreThoseOfThePass) {
  const torch::NoGradGuard no_grad;
  const at::Tensor x = input();
  for (const std::string mechanism : {"softmax", "cog", "differential", "centered"})
    for (const bool memory : {false, true}) {
      AttentionLayer layer(AttentionLayerOptions{
          .width = width, .heads = heads, .key_value_heads = 2, .mechanism = mechanism, .memory = memory});
      layer->initialize(WeightInitializer(7), "attention", 0.5, 0.5);
      layer->to(at::kDouble);
      ForwardContext plain{.memory = memory ? x : at::Tensor(), .dropout = Dropout(0.4, 3)}, observed = plain;
      Hooks hooks;
      std::int64_t seen = 0;
      hooks.read(HookPlace::pattern, [&](const HookPoint&, const at::Tensor&) { ++seen; });
      observed.hooks = &hooks;
      EXPECT_TRUE(at::allclose(layer(x, observed), layer(x, plain), 1e-9, 1e-11)) << mechanism << memory;
      layer->to(at::kFloat);
      const BFloat16Products products(true);
      plain.memory = observed.memory = memory ? x.to(at::kFloat) : at::Tensor();
      const at::Tensor expected = layer(x.to(at::kFloat), plain).to(at::kFloat);
      EXPECT_TRUE(at::allclose(layer(x.to(at::kFloat), observed).to(at::kFloat), expected, 0.05, 0.1))
          << mechanism << memory;
      EXPECT_EQ(seen, 2);
    }
}

TEST(Hooks, RefusesWhatCannotBe) {
  Hooks hooks;
  EXPECT_EQ(usage_error_of([&] { hooks.replace(HookPlace::row_statistics, {}); }),
            "hooks: replace: expected a place whose value can be replaced, got attn.hook_row_statistics");
  hooks.replace(HookPlace::value, [](const HookPoint&, const at::Tensor& value) { return value.narrow(0, 0, 1); });
  AttentionLayer layer = make_layer("softmax");
  EXPECT_EQ(usage_error_of([&] { layer(input(), ForwardContext{.hooks = &hooks}); }),
            "attn.hook_v: expected a tensor of shape [2, 7, 4, 8], got [1, 7, 4, 8]");
  Hooks narrowing;
  narrowing.replace(HookPlace::value, [](const HookPoint&, const at::Tensor& value) { return value.to(at::kFloat); });
  EXPECT_EQ(usage_error_of([&] { layer(input(), ForwardContext{.hooks = &narrowing}); }),
            "attn.hook_v: expected Double on cpu, got Float on cpu");
  Hooks poison;
  poison.replace(HookPlace::value, [](const HookPoint&, const at::Tensor& value) { return at::full_like(value, NAN); });
  EXPECT_EQ(usage_error_of([&] { layer(input(), ForwardContext{.hooks = &poison}); }),
            "attn.hook_v: expected numbers, got NaN");
  Hooks of_members;
  of_members.read(HookPlace::pattern_members, [](const HookPoint&, const at::Tensor&) {});
  AttentionLayer difference = make_layer("differential");
  EXPECT_THROW(difference(input(), ForwardContext{.dropout = Dropout(0.4, 3), .hooks = &of_members}), UsageError);
}

TEST(AttentionLayer, RefusesWhatCannotBe) {
  const auto refuse = [](AttentionLayerOptions options, const std::string& part) {
    try {
      check(options);
      ADD_FAILURE() << "accepted; expected " << part;
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  refuse({.width = 32, .heads = 4, .mechanism = "sofmax"}, "softmax");
  refuse({.width = 32, .heads = 5}, "a divisor of the width (32), got 5");
  refuse({.width = 32, .heads = 8}, "8 to 1024, got 4");
  refuse({.width = 1025, .heads = 1}, "8 to 1024, got 1025");
  refuse({.width = 24, .heads = 3, .mechanism = "differential"}, "an even number for differential, got 3");
  refuse({.width = 24, .heads = 3, .mechanism = "differential_symmetric_cog"}, "an even number for differential_symm");
  refuse({.width = 32, .heads = 4, .first_lambda_depth = 2}, "first_lambda_depth: expected 0 or 1, got 2");
}

TEST(WeightInitializer, DependsOnSeedAndNameAlone) {
  const WeightInitializer first(1), second(2);
  const auto draw = [](const WeightInitializer& initializer, const char* name) {
    at::Tensor weight = torch::empty({64, 64});
    initializer.normal(weight, name, 0.02);
    return weight;
  };
  EXPECT_TRUE(draw(first, "a").equal(draw(first, "a")));
  EXPECT_FALSE(draw(first, "a").equal(draw(first, "b")));
  EXPECT_FALSE(draw(first, "a").equal(draw(second, "a")));
  EXPECT_NEAR(draw(first, "a").std().item<double>(), 0.02, 0.001);
}

// A scalar of a user's map is registered beside them.
TEST(AttentionLayer, ScalarsMayNotHaveTheNamesOfItsParts) {
  for (const char* mechanism : {"softmax", "symmetric", "differential", "differential_symmetric"}) {
    const AttentionLayer layer = make_layer(mechanism);
    for (const auto& parameter : layer->named_parameters(false))
      EXPECT_TRUE(authoring::is_argument(parameter.key())) << parameter.key();
    for (const auto& child : layer->named_children()) EXPECT_TRUE(authoring::is_argument(child.key())) << child.key();
  }
}

}  // namespace
}  // namespace cogwheel::nn::attention_layer_test
