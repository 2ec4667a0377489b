// Alignments against their formulas, written out for one source and head at a time, without padding.
#include "cogwheel/nn/alignment.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <map>

#include "cogwheel/nn/weights/matrix_product.h"
#include "support/usage_error_of.h"

namespace cogwheel::nn::alignment_test {
namespace {

constexpr std::int64_t steps = 6, source = 9, batch = 3, decoder_width = 16;
constexpr double radius = 2.5;
const std::vector<std::int64_t> lengths{9, 4, 1};
using Parameters = std::map<std::string, at::Tensor>;

at::Tensor drawn(at::IntArrayRef sizes, std::uint64_t seed) {
  return torch::randn(sizes, at::make_generator<at::CPUGeneratorImpl>(seed), at::kDouble);
}

at::Tensor lengths_tensor() { return torch::tensor(lengths, at::kLong); }

struct Named {
  std::string kind, map;
  std::string name() const { return map == "softmax" ? kind : kind + "_" + map; }
  bool has(const char* part) const { return kind.find(part) != std::string::npos; }
};

std::vector<Named> every_alignment() {
  std::vector<Named> all;
  for (const std::string kind :
       {"bahdanau", "luong_dot", "luong_general", "luong_concat", "luong_dot_local_m", "luong_general_local_m",
        "luong_concat_local_m", "luong_dot_local_p", "luong_general_local_p", "luong_concat_local_p"})
    for (const std::string map : {"softmax", "cog", "sigmoid"}) all.push_back({kind, map});
  return all;
}

AlignmentLayer make_layer(const std::string& name, std::int64_t heads, std::int64_t width = decoder_width) {
  const bool dot = name.find("dot") != std::string::npos;
  AlignmentLayer layer(AlignmentLayerOptions{.alignment = name,
                                             .decoder_width = width,
                                             .encoder_width = dot ? width : width + 8,
                                             .score_width = width + 16,
                                             .heads = heads,
                                             .radius = radius});
  layer->initialize(WeightInitializer(3), "alignment", 0.3);
  return layer;
}

at::Tensor part_of_head(const at::Tensor& x, std::int64_t head, std::int64_t heads) {
  return x.chunk(heads, -1)[static_cast<std::size_t>(head)];
}

// Weights of scores [T, n] over the keys that are seen.
at::Tensor weights_of(const std::string& map, const at::Tensor& score, const at::Tensor& seen) {
  const at::Tensor count = seen.sum(-1, true);
  if (map == "sigmoid") return ((score - count.clamp_min(1).log()).sigmoid()) * seen;
  const at::Tensor size = (map == "cog" ? score.abs() : score).exp() * seen;
  const at::Tensor weights = size / size.sum(-1, true).masked_fill(count == 0, 1);
  return map == "cog" ? weights * score.detach().sign() : weights;
}

struct Expected {
  at::Tensor contexts, weights;  // [B, T, E], [B, H, T, S]
};

Expected formula(const Named& named, std::int64_t heads, const Parameters& p, const at::Tensor& states,
                 const at::Tensor& encoded) {
  std::vector<at::Tensor> contexts, weights;
  for (std::int64_t b = 0; b < encoded.size(0); ++b) {
    const std::int64_t n = lengths[static_cast<std::size_t>(b)];
    const at::Tensor s = states[b], h = encoded[b].narrow(0, 0, n);
    const at::Tensor j = at::arange(n, s.options());
    std::vector<at::Tensor> of_heads, weights_of_heads;
    for (std::int64_t head = 0; head < heads; ++head) {
      at::Tensor score;
      if (named.has("bahdanau") || named.has("concat")) {
        const at::Tensor q = part_of_head(s.matmul(p.at("query.weight").t()), head, heads),
                         k = part_of_head(h.matmul(p.at("key.weight").t()), head, heads);
        score = (q.unsqueeze(1) + k.unsqueeze(0)).tanh().matmul(p.at("score")[head]);
      } else {
        const at::Tensor k = named.has("general") ? h.matmul(p.at("key.weight").t()) : h;
        score = part_of_head(s, head, heads).matmul(part_of_head(k, head, heads).t());
      }
      at::Tensor center;
      if (named.has("local_m")) center = at::arange(s.size(0), s.options());
      if (named.has("local_p"))
        center = static_cast<double>(n) * part_of_head(s.matmul(p.at("position.weight").t()).tanh(), head, heads)
                                              .matmul(p.at("position_score")[head])
                                              .sigmoid();
      at::Tensor seen = at::ones_like(score), distance;
      if (center.defined()) {
        distance = j - center.unsqueeze(1);
        seen = (distance.detach().abs() <= radius).to(score.scalar_type());
      }
      at::Tensor a = weights_of(named.map, score, seen);
      if (named.has("local_p")) a = a * (-distance.square() / (2 * (radius / 2) * (radius / 2))).exp();
      of_heads.push_back(a.matmul(part_of_head(h, head, heads)));
      weights_of_heads.push_back(at::constant_pad_nd(a, {0, encoded.size(1) - n}));
    }
    contexts.push_back(at::cat(of_heads, -1));
    weights.push_back(at::stack(weights_of_heads));
  }
  return {at::stack(contexts), at::stack(weights)};
}

// Results by name: contexts, weights and every gradient.
using Results = std::map<std::string, at::Tensor>;

struct Leaves {
  Parameters parameters;
  at::Tensor states, encoded;
};

at::Tensor leaf(const at::Tensor& x, at::ScalarType type) { return x.detach().to(type).clone().requires_grad_(); }

Results with_gradients(const Leaves& leaves, const at::Tensor& contexts, const at::Tensor& weights) {
  Results results{{"contexts", contexts.detach()}, {"weights", weights.detach()}};
  contexts.backward(drawn(contexts.sizes(), 11).to(contexts.scalar_type()));
  for (const auto& [name, parameter] : leaves.parameters)
    if (parameter.grad().defined()) results[name] = parameter.grad().clone();
  results["states"] = leaves.states.grad().clone();
  results["encoded"] = leaves.encoded.grad().clone();
  return results;
}

struct Setting {
  Named named;
  std::int64_t heads;
  at::Tensor states, encoded;  // float64
};

Setting setting_of(const Named& named, std::int64_t heads, std::int64_t width = decoder_width) {
  return {named, heads, drawn({batch, steps, width}, 1),
          drawn({batch, source, named.has("dot") ? width : width + 8}, 2)};
}

Results expected_results(const Setting& setting, AlignmentLayer& layer, at::ScalarType type) {
  Leaves leaves{{}, leaf(setting.states, type), leaf(setting.encoded, type)};
  for (const auto& parameter : layer->named_parameters())
    leaves.parameters[parameter.key()] = leaf(parameter.value(), type);
  const Expected expected = formula(setting.named, setting.heads, leaves.parameters, leaves.states, leaves.encoded);
  return with_gradients(leaves, expected.contexts, expected.weights);
}

Results actual_results(const Setting& setting, AlignmentLayer& layer, at::ScalarType type) {
  Leaves leaves{{}, leaf(setting.states, type), leaf(setting.encoded, type)};
  layer->to(type);
  layer->zero_grad();
  for (const auto& parameter : layer->named_parameters()) leaves.parameters[parameter.key()] = parameter.value();
  const AlignmentMemory memory = layer->remember(leaves.encoded, lengths_tensor());
  const at::Tensor contexts = layer(leaves.states, memory);
  return with_gradients(leaves, contexts, layer->weights(leaves.states, memory));
}

// Of the largest element.
double error_of(const at::Tensor& actual, const at::Tensor& expected) {
  const double largest = std::max(expected.abs().max().item<double>(), 1e-300);
  return (actual.to(at::kDouble) - expected).abs().max().item<double>() / largest;
}

TEST(Alignment, EqualsItsFormulaWithEveryGradient) {
  for (const Named& named : every_alignment())
    for (const std::int64_t heads : {1, 2}) {
      const Setting setting = setting_of(named, heads);
      AlignmentLayer layer = make_layer(named.name(), heads);
      const Results exact = expected_results(setting, layer, at::kDouble),
                    eager = expected_results(setting, layer, at::kFloat),
                    single = actual_results(setting, layer, at::kFloat),
                    actual = actual_results(setting, layer, at::kDouble);
      ASSERT_EQ(actual.size(), exact.size()) << named.name();
      for (const auto& [name, expected] : exact) {
        const std::string which = named.name() + " with " + std::to_string(heads) + " heads: " + name;
        EXPECT_GT(expected.abs().max().item<double>(), 0) << which;
        EXPECT_LE(error_of(actual.at(name), expected), 1e-9) << which;
        const double tolerance = name == "contexts" || name == "weights" ? 2e-6 : 1e-5;
        EXPECT_LE(error_of(single.at(name), expected), std::max(tolerance, 2 * error_of(eager.at(name), expected)))
            << which;
      }
    }
}

TEST(Alignment, AStateOf512IsOneHead) {
  for (const Named& named : {Named{"bahdanau", "softmax"}, Named{"luong_general_local_p", "cog"}}) {
    const Setting setting = setting_of(named, 1, 512);
    AlignmentLayer layer = make_layer(named.name(), 1, 512);
    const Results exact = expected_results(setting, layer, at::kDouble),
                  actual = actual_results(setting, layer, at::kDouble);
    for (const auto& [name, expected] : exact)
      EXPECT_LE(error_of(actual.at(name), expected), 1e-9) << named.name() << " " << name;
  }
}

TEST(Alignment, StepByStepIsOneCall) {
  for (const Named& named : every_alignment()) {
    const Setting setting = setting_of(named, 2);
    AlignmentLayer layer = make_layer(named.name(), 2);
    const Results whole = actual_results(setting, layer, at::kDouble);
    Leaves leaves{{}, leaf(setting.states, at::kDouble), leaf(setting.encoded, at::kDouble)};
    layer->zero_grad();
    for (const auto& parameter : layer->named_parameters()) leaves.parameters[parameter.key()] = parameter.value();
    const AlignmentMemory memory = layer->remember(leaves.encoded, lengths_tensor());
    std::vector<at::Tensor> contexts, weights;
    for (std::int64_t t = 0; t < steps; ++t) {
      const at::Tensor state = leaves.states.narrow(1, t, 1);
      contexts.push_back(layer(state, memory, t));
      weights.push_back(layer->weights(state, memory, t));
    }
    const Results stepwise = with_gradients(leaves, at::cat(contexts, 1), at::cat(weights, 2));
    for (const auto& [name, expected] : whole)
      EXPECT_LE(error_of(stepwise.at(name), expected), 1e-12) << named.name() << " " << name;
  }
}

TEST(Alignment, PaddingHasNoEffectWhateverItHolds) {
  for (const Named& named : every_alignment()) {
    Setting setting = setting_of(named, 1);
    AlignmentLayer layer = make_layer(named.name(), 1);
    const Results before = actual_results(setting, layer, at::kDouble);
    setting.encoded = setting.encoded.clone();
    for (std::int64_t b = 0; b < batch; ++b)
      setting.encoded[b].slice(0, lengths[static_cast<std::size_t>(b)]).fill_(std::nan(""));
    const Results after = actual_results(setting, layer, at::kDouble);
    for (const auto& [name, expected] : before) EXPECT_TRUE(at::equal(after.at(name), expected)) << name;
    for (std::int64_t b = 0; b < batch; ++b)
      EXPECT_TRUE(after.at("encoded")[b].slice(0, lengths[static_cast<std::size_t>(b)]).eq(0).all().item<bool>());
  }
}

TEST(Alignment, WithoutLengthsEveryTokenCounts) {
  for (const std::string name : {"bahdanau", "luong_dot_local_p_cog"}) {
    AlignmentLayer layer = make_layer(name, 2);
    layer->to(at::kDouble);
    const Setting setting = setting_of({name, ""}, 2);
    const at::Tensor all = at::full({batch}, source, at::kLong);
    EXPECT_TRUE(at::allclose(layer(setting.states, layer->remember(setting.encoded)),
                             layer(setting.states, layer->remember(setting.encoded, all)), 1e-12, 1e-14));
  }
}

TEST(Alignment, ReadsOtherValuesThanItScores) {
  for (const std::string name : {"bahdanau", "luong_dot_cog"}) {
    AlignmentLayer layer = make_layer(name, 2);
    layer->to(at::kDouble);
    const Setting setting = setting_of({name, ""}, 2);
    at::Tensor values = drawn({batch, source, 6}, 7);
    for (std::int64_t b = 0; b < batch; ++b)
      values[b].slice(0, lengths[static_cast<std::size_t>(b)]).fill_(std::nan(""));
    const at::Tensor read = layer(setting.states, layer->remember(setting.encoded, lengths_tensor(), values));
    const at::Tensor weights =
        layer->weights(setting.states, layer->remember(setting.encoded, lengths_tensor()));  // [B, 2, T, S]
    const at::Tensor known = values.nan_to_num(0);
    for (std::int64_t head = 0; head < 2; ++head)
      EXPECT_TRUE(at::allclose(part_of_head(read, head, 2),
                               weights.select(1, head).matmul(part_of_head(known, head, 2)), 1e-12, 1e-13))
          << name;
  }
}

TEST(Alignment, AMemoryGrowsByTokens) {
  for (const std::string name : {"bahdanau", "luong_general_cog"}) {
    AlignmentLayer layer = make_layer(name, 2);
    layer->to(at::kDouble);
    const Setting setting = setting_of({name, ""}, 2);
    AlignmentMemory grown = layer->remember(setting.encoded.narrow(1, 0, 1));
    for (std::int64_t token = 1; token < source; ++token)
      grown = grown.followed_by(layer->remember(setting.encoded.narrow(1, token, 1)));
    EXPECT_TRUE(at::allclose(layer(setting.states, grown), layer(setting.states, layer->remember(setting.encoded)),
                             1e-12, 1e-13));
  }
}

TEST(Alignment, HypothesesReadCopiesOfASource) {
  const at::Tensor entries = torch::tensor({2, 0, 0, 1}, at::kLong);
  for (const std::string name : {"bahdanau", "luong_general_local_p", "luong_dot_local_m"}) {
    AlignmentLayer layer = make_layer(name, 1);
    layer->to(at::kDouble);
    const Setting setting = setting_of({name, ""}, 1);
    const AlignmentMemory memory = layer->remember(setting.encoded, lengths_tensor());
    EXPECT_TRUE(at::allclose(layer(setting.states.index_select(0, entries), memory.fork(entries), 2),
                             layer(setting.states, memory, 2).index_select(0, entries), 1e-12, 1e-14))
        << name;
  }
  AlignmentLayer none = make_layer("none", 1);
  EXPECT_FALSE(none->remember(drawn({batch, source, decoder_width + 8}, 2)).fork(entries).key.defined());
  EXPECT_ANY_THROW(make_layer("bahdanau", 1)->remember(torch::zeros({1, 2, 24})).fork(entries));
}

TEST(Alignment, AWindowPastTheSourceGivesZero) {
  AlignmentLayer layer = make_layer("luong_dot_local_m", 1);
  layer->to(at::kDouble);
  const Setting setting = setting_of({"luong_dot", ""}, 1);
  const at::Tensor contexts = layer(setting.states, layer->remember(setting.encoded, lengths_tensor()), 3);
  // Of the last source, of one token, step 3 and later ones see nothing.
  EXPECT_TRUE(contexts[2].eq(0).all().item<bool>());
  EXPECT_TRUE(contexts[0].ne(0).any(-1).all().item<bool>());
  AlignmentLayer empty = make_layer("luong_general_local_p_cog", 1);
  const at::Tensor nothing = at::zeros({batch}, at::kLong);
  EXPECT_TRUE(empty(torch::ones({batch, 2, 16}), empty->remember(torch::ones({batch, 4, 24}), nothing))
                  .eq(0)
                  .all()
                  .item<bool>());
}

TEST(Alignment, LuongEndsInAStateOfContextAndState) {
  AlignmentLayer layer = make_layer("luong_general", 1);
  layer->to(at::kDouble);
  const at::Tensor contexts = drawn({2, 3, decoder_width + 8}, 4), states = drawn({2, 3, decoder_width}, 5);
  const at::Tensor weight = layer->named_parameters()["combine.weight"];
  EXPECT_EQ(weight.sizes(), (std::vector<std::int64_t>{decoder_width, 2 * decoder_width + 8}));
  const at::Tensor expected = (contexts.matmul(weight.slice(1, 0, decoder_width + 8).t()) +
                               states.matmul(weight.slice(1, decoder_width + 8).t()))
                                  .tanh();
  EXPECT_TRUE(at::allclose(layer->attentional_state(contexts, states), expected, 1e-12, 1e-14));
}

TEST(Alignment, ALuongKindMayDoWithoutThatState) {
  AlignmentLayer layer(AlignmentLayerOptions{
      .alignment = "luong_dot", .decoder_width = decoder_width, .encoder_width = decoder_width, .attentional = false});
  EXPECT_EQ(layer->parameters().size(), 0U);
  const at::Tensor x = torch::zeros({1, 1, decoder_width});
  EXPECT_ANY_THROW(layer->attentional_state(x, x));
}

TEST(Alignment, WithoutAttentionThereIsNoContext) {
  AlignmentLayer layer = make_layer("none", 1);
  EXPECT_EQ(layer->parameters().size(), 0U);
  EXPECT_EQ(layer->context_width(), 0);
  const AlignmentMemory memory = layer->remember(torch::zeros({2, 5, decoder_width + 8}));
  EXPECT_EQ(layer(torch::zeros({2, 3, decoder_width}), memory).sizes(), (std::vector<std::int64_t>{2, 3, 0}));
  EXPECT_EQ(usage_error_of([&] {
              layer->weights(torch::zeros({2, 3, decoder_width}), memory);
            }),
            "alignment: weights: expected attention, got none");
}

TEST(Alignment, LearnsTheScalarsOfItsRowMap) {
  AlignmentLayer layer = make_layer("bahdanau_softmax_off_by_one", 2);
  const auto parameters = layer->named_parameters();
  ASSERT_TRUE(parameters.contains("sink"));
  EXPECT_EQ(parameters["sink"].sizes(), std::vector<std::int64_t>{2});
  layer(torch::ones({1, 2, decoder_width}), layer->remember(torch::ones({1, 3, decoder_width + 8}))).sum().backward();
  EXPECT_TRUE(parameters["sink"].grad().ne(0).all().item<bool>());
}

TEST(Alignment, DropsWeightsAfterTheNormaliser) {
  AlignmentLayer layer = make_layer("luong_general", 1);
  const Setting setting = setting_of({"luong_general", ""}, 1);
  const at::Tensor states = setting.states.to(at::kFloat);
  // Values that count the tokens: the context is the sum of the kept weights, each divided by 1 − rate.
  const AlignmentMemory memory = layer->remember(setting.encoded.to(at::kFloat));
  const at::Tensor kept = layer(states, memory, 0, Dropout(0.5, 9)), again = layer(states, memory, 0, Dropout(0.5, 9));
  EXPECT_TRUE(at::equal(kept, again));
  EXPECT_FALSE(at::allclose(kept, layer(states, memory)));
}

TEST(Alignment, ComputesInBFloat16WhereLayersDo) {
  for (const std::string name : {"bahdanau", "luong_dot", "luong_general_local_p"}) {
    AlignmentLayer layer = make_layer(name, 1);
    const Setting setting = setting_of({name, ""}, 1);
    const at::Tensor states = setting.states.to(at::kFloat).mul(0.3), encoded = setting.encoded.to(at::kFloat);
    const at::Tensor exact = layer(states, layer->remember(encoded, lengths_tensor()));
    const BFloat16Products narrow;
    const at::Tensor rounded = layer(states, layer->remember(encoded, lengths_tensor()));
    EXPECT_LE(error_of(rounded.to(at::kFloat), exact.to(at::kDouble)), 0.05) << name;
    EXPECT_GT(error_of(rounded.to(at::kFloat), exact.to(at::kDouble)), 0) << name;
  }
}

TEST(Alignment, RefusesInOneLine) {
  const auto refused = [](AlignmentLayerOptions options) { return usage_error_of([&] { check(options); }); };
  EXPECT_EQ(refused({.alignment = "bahdanow", .decoder_width = 16, .encoder_width = 16}),
            usage_error_of([] { find_alignment("bahdanow"); }));
  EXPECT_EQ(refused({.decoder_width = 0, .encoder_width = 16}), "decoder_width: expected at least 1, got 0");
  EXPECT_EQ(refused({.decoder_width = 16, .encoder_width = 15, .heads = 2}),
            "heads: expected a divisor of the encoder_width (15), got 2");
  EXPECT_EQ(refused({.alignment = "luong_dot", .decoder_width = 16, .encoder_width = 24}),
            "encoder_width of luong_dot: expected 16 (as decoder_width), got 24");
  EXPECT_EQ(refused({.decoder_width = 16, .encoder_width = 16, .score_width = 2048}),
            "head_dim (width / heads): expected 8 to 1024, got 2048");
  EXPECT_EQ(refused({.decoder_width = 16, .encoder_width = 16, .score_width = -1}),
            "score_width: expected 0 (as decoder_width) or more, got -1");
  EXPECT_EQ(refused({.decoder_width = 16, .encoder_width = 16, .radius = 0}),
            "radius: expected a number above 0, got 0.000000");
  AlignmentLayer layer = make_layer("luong_concat", 1);
  EXPECT_EQ(usage_error_of([&] {
              layer->remember(torch::zeros({2, 5, 16}));
            }),
            "alignment: encoded: expected [batch, tokens, 24], got [2, 5, 16]");
  EXPECT_EQ(usage_error_of([&] {
              layer->remember(torch::zeros({2, 5, 24}), torch::zeros({3}, at::kLong));
            }),
            "alignment: lengths: expected int64 [2], got Long [3]");
  const AlignmentMemory memory = layer->remember(torch::zeros({2, 5, 24}));
  EXPECT_EQ(usage_error_of([&] {
              layer(torch::zeros({2, 16}), memory);
            }),
            "alignment: states: expected [batch, tokens, 16], got [2, 16]");
  EXPECT_EQ(usage_error_of([&] {
              layer->predicted_positions(torch::zeros({2, 1, 16}), memory);
            }),
            "alignment: predicted_positions: expected a local-p, got luong_concat");
  EXPECT_EQ(usage_error_of([] {
              make_layer("bahdanau", 1)->attentional_state(torch::zeros({2, 1, 24}), torch::zeros({2, 1, 16}));
            }),
            "alignment: attentional_state: expected a Luong kind, got bahdanau");
}

}  // namespace
}  // namespace cogwheel::nn::alignment_test
