// Layers with a state: the same numbers token by token as at once, and their formulas written out.
#include "cogwheel/nn/mixers/recurrent_layer.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/nn/hooks/head_observer.h"
#include "cogwheel/nn/weights/new_parameter.h"
#include "nn/hooked.h"
#include "support/usage_error_of.h"

namespace cogwheel::nn::recurrent_layer_test {
namespace {

constexpr std::int64_t batch = 2, tokens = 13, width = 32, heads = 4, head_dim = width / heads;

RecurrentLayer make_layer(std::string_view mechanism, bool plain, std::int64_t layer = 2) {
  RecurrentLayer made(RecurrentLayerOptions{.width = width,
                                            .heads = heads,
                                            .mechanism = std::string(mechanism),
                                            .layer = layer,
                                            .layers = 4,
                                            .plain = plain});
  made->initialize(WeightInitializer(7), "layer", 0.5, 0.5);
  made->to(at::kDouble);
  return made;
}

at::Tensor input(std::int64_t entries = batch) {
  return torch::randn({entries, tokens, width}, at::make_generator<at::CPUGeneratorImpl>(3), at::kDouble);
}

// Every mechanism with a state as a plain layer and as its paper has it.
template <class Test>
void for_each_layer(Test&& test) {
  for (const Mechanism& mechanism : mechanisms())
    if (mechanism.recurrent() != nullptr)
      for (const bool plain : {true, false}) {
        SCOPED_TRACE(std::string(mechanism.description.name) + (plain ? ", plain" : ", paper"));
        RecurrentLayer layer = make_layer(mechanism.description.name, plain);
        test(layer);
      }
}

at::Tensor step(RecurrentLayer& layer, const at::Tensor& x, LayerState& state) {
  ForwardContext context;
  context.layer_state = &state;
  return layer->forward(x, context);
}

bool close(const at::Tensor& a, const at::Tensor& b) { return at::allclose(a, b, 1e-9, 1e-11); }

// As the published code of RWKV-6 starts its layers: the first at depth 0, the last at 1, but for the shares of the
// token before, which leave the last layer a little of them.
TEST(RecurrentLayer, StartsRwkv6AsItsCodeDoes) {
  for (const bool plain : {true, false})
    for (std::int64_t layer = 0; layer < 4; ++layer) {
      SCOPED_TRACE(layer);
      const auto parameters = make_layer("rwkv6", plain, layer)->named_parameters();
      const double depth = static_cast<double>(layer) / 3;
      const at::Tensor share = at::arange(width, at::kDouble) / static_cast<double>(width - 1),
                       zigzag = 0.1 * ((at::arange(width, at::kDouble) + 1).remainder(3) - 1);
      EXPECT_TRUE(at::allclose(parameters["log_decay.bias"], -6 + 5 * share.pow(0.7 + 1.3 * depth), 1e-6, 1e-6));
      EXPECT_TRUE(at::allclose(parameters["bonus.bias"], depth * (1 - share) + zigzag, 1e-6, 1e-6));
      if (plain) continue;
      const at::Tensor of_token_before =
          1 - (at::arange(width, at::kDouble) / static_cast<double>(width)).pow(1 - static_cast<double>(layer) / 4);
      EXPECT_TRUE(at::allclose(parameters["shift.shared"], of_token_before, 1e-6, 1e-6));
    }
}

TEST(RecurrentLayer, DecodesToTheRowsOfTheWholePass) {
  const torch::NoGradGuard no_grad;
  const at::Tensor x = input();
  for_each_layer([&](RecurrentLayer& layer) {
    const at::Tensor expected = layer(x);
    const auto state = layer->make_state(batch, 0);
    std::vector<at::Tensor> parts;
    // Parts shorter than the convolution, too.
    for (std::int64_t begin = 0; const std::int64_t end : {1, 2, 4, 5, 11, 13}) {
      parts.push_back(step(layer, x.slice(1, begin, end), *state));
      begin = end;
    }
    EXPECT_TRUE(close(at::cat(parts, 1), expected));
    EXPECT_EQ(state->longest(), tokens);
  });
}

// States, convolutions, token shifts and running means end with a sequence: tokens and gradients are those of the
// sequences by themselves. One of them is empty, one a single token.
TEST(RecurrentLayer, OfPackedSequencesIsThatOfEachAlone) {
  const std::vector<std::int64_t> ends{0, 4, 4, 5, tokens};
  const at::Tensor cu_seqlens = at::tensor(ends, at::kLong), outer = input(1).roll(3, 1);
  for_each_layer([&](RecurrentLayer& layer) {
    const at::Tensor x = input(1).requires_grad_(true);
    const auto gradients = [&](const at::Tensor& output) {
      layer->zero_grad();
      (output * outer).sum().backward();
      std::vector<at::Tensor> all{std::exchange(x.mutable_grad(), {})};
      for (const at::Tensor& parameter : layer->parameters())
        if (parameter.grad().defined()) all.push_back(parameter.grad().clone());
      return all;
    };
    ForwardContext context;
    context.cu_seqlens = cu_seqlens;
    const at::Tensor packed = layer(x, context);
    std::vector<at::Tensor> parts;
    for (std::size_t sequence = 0; sequence + 1 < ends.size(); ++sequence)
      if (ends[sequence] < ends[sequence + 1]) parts.push_back(layer(x.slice(1, ends[sequence], ends[sequence + 1])));
    const at::Tensor alone = at::cat(parts, 1);
    EXPECT_TRUE(close(packed, alone));
    const std::vector<at::Tensor> got = gradients(packed), wanted = gradients(alone);
    ASSERT_EQ(got.size(), wanted.size());
    for (std::size_t index = 0; index < got.size(); ++index) EXPECT_TRUE(close(got[index], wanted[index])) << index;
    EXPECT_FALSE(close(layer(x), alone));
  });
}

// Hooks see the weights and statistics of each sequence, 0 between them.
TEST(RecurrentLayer, OfPackedSequencesHasTheWeightsOfEach) {
  const torch::NoGradGuard no_grad;
  const at::Tensor x = input(1);
  for_each_layer([&](RecurrentLayer& layer) {
    const auto seen = [&](const at::Tensor& part, const std::optional<at::Tensor>& cu_seqlens) {
      at::Tensor pattern, statistics;
      Hooks hooks;
      hooks.read(HookPlace::pattern, [&](const HookPoint&, const at::Tensor& value) { pattern = value; });
      hooks.read(HookPlace::row_statistics, [&](const HookPoint&, const at::Tensor& value) { statistics = value; });
      ForwardContext context;
      context.cu_seqlens = cu_seqlens;
      context.hooks = &hooks;
      layer(part, context);
      return std::pair(pattern, statistics);
    };
    const auto [pattern, statistics] = seen(x, at::tensor({0, 5, 5, 13}, at::kLong));
    const auto [first, of_first] = seen(x.slice(1, 0, 5), {});
    const auto [second, of_second] = seen(x.slice(1, 5), {});
    EXPECT_TRUE(close(pattern.slice(2, 0, 5).slice(3, 0, 5), first));
    EXPECT_TRUE(close(pattern.slice(2, 5).slice(3, 5), second));
    EXPECT_EQ(pattern.slice(2, 5).slice(3, 0, 5).abs().max().item<double>(), 0);
    EXPECT_TRUE(at::allclose(statistics, at::cat({of_first, of_second}, -1), 1e-9, 1e-11, /*equal_nan=*/true));
  });
}

TEST(RecurrentLayer, SaysWhichPackedSequencesItCannotTake) {
  RecurrentLayer layer = make_layer("gla", true);
  const auto refusal = [&](const at::Tensor& cu_seqlens, std::int64_t entries = 1) {
    ForwardContext context;
    context.cu_seqlens = cu_seqlens;
    return usage_error_of([&] { layer(input(entries), context); });
  };
  const std::string expected =
      "recurrent layer: cu_seqlens: expected numbers in order from 0 to 13, for a batch of one, got ";
  EXPECT_EQ(refusal(at::tensor({0, 5, 12}, at::kLong)), expected + "0 to 12");
  EXPECT_EQ(refusal(at::tensor({0, 8, 5, 13}, at::kLong)), expected + "5 after 8");
  EXPECT_EQ(refusal(at::tensor({0, 13}, at::kLong), 2), expected + "a batch of 2");
  EXPECT_EQ(refusal(at::tensor({0.0, 13.0})), expected + "Double [2]");
}

TEST(RecurrentLayer, SeesNothingOfLaterTokens) {
  const torch::NoGradGuard no_grad;
  const at::Tensor x = input();
  for_each_layer([&](RecurrentLayer& layer) {
    const at::Tensor before = layer(x).narrow(1, 0, 7);
    at::Tensor large = x.clone();
    large.select(1, 7).mul_(50);
    EXPECT_TRUE(layer(large).narrow(1, 0, 7).equal(before));
  });
}

// Gates too, which the operator refuses where they are NaN.
TEST(RecurrentLayer, OfATokenThatIsNanIsNanFromThereOn) {
  const torch::NoGradGuard no_grad;
  const at::Tensor x = input();
  at::Tensor spoiled = x.clone();
  spoiled[0][7][3] = std::numeric_limits<double>::quiet_NaN();
  for_each_layer([&](RecurrentLayer& layer) {
    const at::Tensor expected = layer(x), found = layer(spoiled);
    EXPECT_TRUE(found[0].narrow(0, 0, 7).equal(expected[0].narrow(0, 0, 7)));
    EXPECT_TRUE(found[0].narrow(0, 7, 6).isnan().all().item<bool>());
    EXPECT_TRUE(found[1].equal(expected[1]));
    const auto state = layer->make_state(batch, 0);
    step(layer, spoiled.slice(1, 0, 9), *state);
    const at::Tensor rest = step(layer, x.slice(1, 9), *state);
    EXPECT_TRUE(rest[0].isnan().all().item<bool>());
    EXPECT_TRUE(close(rest[1], expected[1].slice(0, 9)));
  });
}

TEST(RecurrentLayer, ForksAndEmptiesItsState) {
  const torch::NoGradGuard no_grad;
  const at::Tensor x = input();
  for_each_layer([&](RecurrentLayer& layer) {
    const auto state = layer->make_state(batch, 0);
    step(layer, x.slice(1, 0, 4), *state);
    const std::int64_t bytes = state->bytes();
    step(layer, x.slice(1, 4, 9), *state);
    EXPECT_EQ(state->bytes(), bytes);  // however long the text
    const at::Tensor chosen = at::tensor({1, 0, 1}, at::kLong), rest = x.slice(1, 9);
    const auto copy = state->fork(chosen);
    const at::Tensor next = step(layer, rest, *state);
    EXPECT_TRUE(close(step(layer, rest.index_select(0, chosen), *copy), next.index_select(0, chosen)));

    // An entry keeps all tokens or none, and goes on from there.
    state->crop(at::tensor({0, 13}, at::kLong));
    EXPECT_TRUE(state->lengths().equal(at::tensor({0, 13}, at::kLong)));
    const auto fresh = layer->make_state(1, 0);
    const at::Tensor again = step(layer, x.slice(1, 0, 5), *state);
    EXPECT_TRUE(close(again.narrow(0, 0, 1), step(layer, x.slice(0, 0, 1).slice(1, 0, 5), *fresh)));
  });
}

TEST(RecurrentLayer, ForgetsNoTokenButThoseOfTheLastPass) {
  const torch::NoGradGuard no_grad;
  const at::Tensor x = input(1);
  RecurrentLayer layer = make_layer("gla", false);
  const auto state = layer->make_state(1, 0);
  step(layer, x.slice(1, 0, 6), *state);
  const at::Tensor expected = step(layer, x.slice(1, 6, 9), *state);
  try {
    state->crop(at::tensor({5}, at::kLong));
    ADD_FAILURE() << "cropped";
  } catch (const c10::ValueError& error) {
    EXPECT_STREQ(error.what_without_backtrace(),
                 "cache: crop of entry 0: expected 0 or 9 (a state forgets no token), got 5");
  }
  state->crop(at::tensor({6}, at::kLong));
  EXPECT_TRUE(step(layer, x.slice(1, 6, 9), *state).equal(expected));
}

at::Tensor linear(RecurrentLayer& layer, const std::string& name, const at::Tensor& x) {
  const auto parameters = layer->named_parameters();
  const at::Tensor product = x.matmul(parameters[name + ".weight"].t());
  return parameters.contains(name + ".bias") ? product + parameters[name + ".bias"] : product;
}

at::Tensor heads_of(const at::Tensor& x) { return x.unflatten(-1, {heads, x.size(-1) / heads}).transpose(1, 2); }

// S_t = A_t ∘ S_{t−1} + k_t v_tᵀ token by token; decay [B, H, N, D] or [B, H, N, 1].
at::Tensor walked(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const at::Tensor& decay) {
  at::Tensor state = at::zeros({query.size(0), heads, query.size(3), value.size(3)}, at::kDouble);
  std::vector<at::Tensor> rows;
  for (std::int64_t t = 0; t < query.size(2); ++t) {
    state =
        decay.select(2, t).unsqueeze(-1) * state + key.select(2, t).unsqueeze(-1) * value.select(2, t).unsqueeze(-2);
    rows.push_back((state * query.select(2, t).unsqueeze(-1)).sum(-2) / std::sqrt(static_cast<double>(head_dim)));
  }
  return at::stack(rows, 2);
}

TEST(RecurrentLayer, PlainIsProjectionsAndAGate) {
  const torch::NoGradGuard no_grad;
  RecurrentLayer layer = make_layer("gla", true);
  const at::Tensor x = input();
  const at::Tensor gate = linear(layer, "log_decay.projection", x) + layer->named_parameters()["log_decay.bias"];
  const at::Tensor attended = walked(heads_of(linear(layer, "query", x)), heads_of(linear(layer, "key", x)),
                                     heads_of(linear(layer, "value", x)), heads_of(at::log_sigmoid(gate) / 16).exp());
  EXPECT_TRUE(close(layer(x), linear(layer, "output", attended.transpose(1, 2).flatten(2))));
}

TEST(RecurrentLayer, OfMamba2IsThePapers) {
  const torch::NoGradGuard no_grad;
  RecurrentLayer layer = make_layer("mamba2", false);
  const auto parameters = layer->named_parameters();
  const at::Tensor x = input();
  const at::Tensor joined =
      at::cat({linear(layer, "value", x), linear(layer, "query", x), linear(layer, "key", x)}, -1);
  const at::Tensor taps = parameters["convolution.weight"];
  at::Tensor convolved = at::zeros_like(joined) + parameters["convolution.bias"];
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t tap = 0; tap < 4; ++tap)
      if (t - 3 + tap >= 0) convolved.select(1, t) += taps[tap] * joined.select(1, t - 3 + tap);
  const auto parts = at::silu(convolved).split_with_sizes({2 * width, width, width}, -1);
  const at::Tensor step =
      at::softplus(linear(layer, "log_decay.projection", x) + parameters["log_decay.bias"]).transpose(1, 2);
  const at::Tensor decay = (-step * parameters["log_decay.constant"].exp().unsqueeze(-1)).exp();
  const at::Tensor unscaled = heads_of(parts[1]) * std::sqrt(static_cast<double>(head_dim));
  at::Tensor rows = walked(unscaled, heads_of(parts[2]), heads_of(parts[0]) * step.unsqueeze(-1), decay.unsqueeze(-1))
                        .transpose(1, 2)
                        .flatten(2);
  rows = (rows + parts[0] * parameters["skip"]).unflatten(-1, {heads, 2 * head_dim});
  rows = rows / (rows.square().mean(-1, true) + 1e-6).sqrt();
  const at::Tensor gated = rows.flatten(2) * at::silu(linear(layer, "output_gate", x));
  EXPECT_TRUE(close(layer(x), linear(layer, "output", gated)));
}

// Where the law or the layer divides by a sum, equal values come out as they are.
TEST(RecurrentLayer, AveragesWhereThePaperDoes) {
  const torch::NoGradGuard no_grad;
  Hooks hooks;
  hooks.replace(HookPlace::value, [](const HookPoint&, const at::Tensor& value) { return at::ones_like(value); });
  at::Tensor outputs;
  hooks.read(HookPlace::heads, [&](const HookPoint&, const at::Tensor& output) { outputs = output; });
  ForwardContext context;
  context.hooks = &hooks;
  for (const char* mechanism : {"linear_attention", "abc"}) {
    RecurrentLayer layer = make_layer(mechanism, false);
    const auto state = layer->make_state(batch, 0);
    for (const auto& [begin, end] : {std::pair{0, 6}, {6, 7}, {7, 13}}) {
      context.layer_state = state.get();
      layer->forward(input().slice(1, begin, end), context);
      EXPECT_TRUE(close(outputs, at::ones_like(outputs))) << mechanism << " " << begin;
    }
  }
}

TEST(RecurrentLayer, StartsFromThePapersGates) {
  const torch::NoGradGuard no_grad;
  const at::Tensor decay = make_layer("retnet", false)->named_parameters()["decay.bias"].sigmoid();
  for (std::int64_t head = 0; head < heads; ++head)
    EXPECT_NEAR(decay[head].item<double>(), 1 - std::exp2(-5.0 - static_cast<double>(head)), 1e-6);
  // The lower bound of HGRN2's gates rises with depth from 0.
  at::Tensor x = input();
  for (const std::int64_t layer : {0, 1, 3}) {
    RecurrentGate gate(RecurrentGateOptions{.recipe = {.parameter = "log_decay", .map = GateMap::above_bound},
                                            .parameter = find_recurrent_law("hgrn2")->parameters[0],
                                            .inputs = width,
                                            .heads = heads,
                                            .key_width = head_dim,
                                            .value_width = head_dim,
                                            .layer = layer,
                                            .layers = 4});
    gate->to(at::kDouble);
    gate->initialize(WeightInitializer(1), "gate", 5);  // far from 0
    const at::Tensor kept = gate(x).tensor.exp();
    EXPECT_NEAR(kept.min().item<double>(), static_cast<double>(layer) / 4, 1e-3);
    EXPECT_LE(kept.max().item<double>(), 1);
  }
}

// β of a delta rule up to 2.
TEST(RecurrentLayer, DoublesWhatAnOptionOfItsLawSays) {
  const torch::NoGradGuard no_grad;
  for (const char* mechanism : {"deltanet", "gated_deltanet", "gla"})
    for (const bool plain : {false, true}) {
      const auto gate_of = [&](bool doubled, const char* parameter) {
        RecurrentLayerOptions options{.width = width, .heads = heads, .mechanism = mechanism, .plain = plain};
        options.law_options["negative_eigenvalues"] = doubled;
        RecurrentLayer layer(options);
        layer->initialize(WeightInitializer(1), "layer", 1, 1);
        layer->to(at::kDouble);
        return layer->named_children()[parameter]->as<RecurrentGateImpl>()->forward(input()).tensor;
      };
      const std::string_view name = mechanism;
      if (name != "gla") {
        EXPECT_TRUE(at::equal(gate_of(true, "beta"), 2 * gate_of(false, "beta"))) << name;
      }
      if (name != "deltanet") {
        EXPECT_TRUE(at::equal(gate_of(true, "log_decay"), gate_of(false, "log_decay"))) << name;
      }
    }
}

// What is shown as the pattern makes the heads of the values, and what replaces them is used.
TEST(RecurrentLayer, HasWeights) {
  const torch::NoGradGuard no_grad;
  const at::Tensor x = input();
  for_each_layer([&](RecurrentLayer& layer) {
    Hooks hooks;
    HeadObserver observer(hooks);
    ForwardContext context;
    context.hooks = &hooks;
    context.site.layer = 0;
    layer->forward(x, context);
    ASSERT_EQ(observer.statistics().size(), 1u);
    EXPECT_EQ(observer.statistics()[0].size(), static_cast<std::size_t>(heads));
    const at::Tensor weights = hooked(HookPlace::pattern, layer, x).at(0);
    EXPECT_TRUE(weights.triu(1).eq(0).all().item<bool>());
    // Equal columns of values, since some laws have weights of their own for each, of which the mean is shown.
    at::Tensor values, outputs;
    Hooks equal;
    equal.replace(HookPlace::value, [&](const HookPoint&, const at::Tensor& value) {
      return values = value.narrow(-1, 0, 1).expand_as(value).contiguous();
    });
    equal.read(HookPlace::heads, [&](const HookPoint&, const at::Tensor& output) { outputs = output.transpose(1, 2); });
    context.hooks = &equal;
    layer->forward(x, context);
    EXPECT_TRUE(close(weights.matmul(values.transpose(1, 2)).mean(-1), outputs.mean(-1)));
    const at::Tensor later = weights.select(1, 1).narrow(1, 1, weights.size(2) - 1);  // queries that see several keys
    EXPECT_NEAR(observer.statistics()[0][1].sum, later.sum(-1).mean().item<double>(), 1e-9);
  });
  RecurrentLayer layer = make_layer("gla", true);
  const auto state = layer->make_state(batch, 0);
  step(layer, x, *state);
  ForwardContext context;
  context.layer_state = state.get();
  EXPECT_EQ(usage_error_of([&] { hooked(HookPlace::pattern, layer, x, context); }),
            "attn.hook_pattern of gla: expected a pass from the first token, got a state, which has not kept the keys");
}

TEST(RecurrentLayer, EveryParameterLearns) {
  for_each_layer([](RecurrentLayer& layer) {
    {  // away from the zeros that some start from
      const torch::NoGradGuard no_grad;
      for (at::Tensor& parameter : layer->parameters()) parameter.add_(0.01);
    }
    layer(input()).square().sum().backward();
    for (const auto& parameter : layer->named_parameters()) {
      ASSERT_TRUE(parameter.value().grad().defined()) << parameter.key();
      EXPECT_GT(parameter.value().grad().abs().max().item<double>(), 0) << parameter.key();
      EXPECT_TRUE(parameter.value().grad().isfinite().all().item<bool>()) << parameter.key();
    }
  });
}

TEST(RecurrentLayer, TakesNoMemoryOnMeta) {
  for (const Mechanism& mechanism : mechanisms()) {
    if (mechanism.recurrent() == nullptr) continue;
    const PlaceParameters nowhere(at::kMeta);
    const RecurrentLayer layer(
        RecurrentLayerOptions{.width = width, .heads = heads, .mechanism = std::string(mechanism.description.name)});
    for (const auto& parameter : layer->parameters()) EXPECT_TRUE(parameter.is_meta()) << mechanism.description.name;
  }
}

TEST(RecurrentLayer, OfWeightsThatAreNanIsNan) {
  const torch::NoGradGuard no_grad;
  RecurrentLayer layer = make_layer("gla", false);
  for (at::Tensor& parameter : layer->parameters()) parameter.fill_(std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(layer(input()).isnan().all().item<bool>());
  // Gates alone, of tokens and of heads.
  for_each_layer([](RecurrentLayer& each) {
    bool has_gates = false;
    for (const auto& child : each->children())
      if (child->as<RecurrentGateImpl>() != nullptr) {
        has_gates = true;
        for (at::Tensor& parameter : child->parameters()) parameter.fill_(std::numeric_limits<double>::quiet_NaN());
      }
    EXPECT_EQ(each(input()).isnan().all().item<bool>(), has_gates);
  });
}

// A run that diverges has a loss to record, and pictures: gates that are no longer what their law allows are no error.
TEST(RecurrentLayer, OfGatesThatHaveGrownBeyondBoundsIsNoError) {
  const torch::NoGradGuard no_grad;
  for (const double size : {1e30, -1e30})
    for_each_layer([&](RecurrentLayer& layer) {
      for (const auto& child : layer->children())
        if (child->as<RecurrentGateImpl>() != nullptr)
          for (at::Tensor& parameter : child->parameters()) parameter.fill_(size);
      EXPECT_EQ(layer(input()).sizes(), input().sizes());
      EXPECT_EQ(hooked(HookPlace::pattern, layer, input()).at(0).sizes(),
                std::vector<std::int64_t>({batch, heads, tokens, tokens}));
    });
  // γ of 0, which its law has not.
  RecurrentLayer layer = make_layer("retnet", true);
  layer->named_parameters()["decay.bias"].fill_(-1e30);
  EXPECT_TRUE(layer(input()).isnan().all().item<bool>());
  EXPECT_TRUE(hooked(HookPlace::pattern, layer, input()).at(0).isnan().all().item<bool>());
}

TEST(RecurrentLayer, RefusesWhatDoesNotFit) {
  EXPECT_EQ(usage_error_of([] { check(RecurrentLayerOptions{.width = 32, .heads = 4, .mechanism = "softmax"}); }),
            "mechanism of a recurrent layer: expected one with a state, got softmax");
  EXPECT_EQ(usage_error_of([] { check(RecurrentLayerOptions{.width = 32, .heads = 5, .mechanism = "gla"}); }),
            "heads: expected a divisor of the width (32), got 5");
  EXPECT_EQ(usage_error_of([] { check(AttentionLayerOptions{.width = 32, .heads = 4, .mechanism = "gla"}); }),
            "mechanism of an attention layer: expected one without a state, got gla");
}

}  // namespace
}  // namespace cogwheel::nn::recurrent_layer_test
