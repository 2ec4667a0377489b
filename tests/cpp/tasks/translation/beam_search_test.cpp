// Beam search against greedy and exhaustive search, and its limits.
#include "cogwheel/tasks/translation/beam_search.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>

#include "cogwheel/tasks/translation/sequence_to_sequence.h"
#include "support/usage_error_of.h"

namespace cogwheel::tasks::translation::beam_search_test {
namespace {

constexpr Token begin = 1, end = 2;
constexpr std::int64_t vocabulary = 6;

SequenceToSequence make(const std::string& mechanism, std::uint64_t seed, const std::string& cell = "gru") {
  SequenceToSequence model(SequenceToSequenceOptions{
      .vocabulary = vocabulary, .layers = 2, .width = 8, .cell = cell, .mechanism = mechanism, .input_feeding = true});
  model->initialize(seed);
  const torch::NoGradGuard no_grad;
  for (auto& parameter : model->parameters()) parameter.mul_(3);  // logits far from uniform
  return model;
}
const std::vector<std::string> mechanisms{"bahdanau", "luong_general_local_m", "luong_dot", "none"};

struct Sources {
  at::Tensor tokens, lengths;
  Sources row(std::int64_t index) const {
    const at::Tensor length = lengths.narrow(0, index, 1);
    return {tokens.narrow(0, index, 1).narrow(1, 0, length.item<std::int64_t>()), length};
  }
};
Sources some_sources() {
  return {at::tensor({3, 4, 5, 2, 3, 2, 0, 0, 5, 5, 2, 0, 4, 3, 3, 2}, at::kLong).view({4, 4}),
          at::tensor({4, 2, 3, 4}, at::kLong)};
}

// Of a length that does not depend on the source.
BeamOptions options_of(std::int64_t beam, std::int64_t longest, double penalty = 1) {
  return {.beam = beam, .length_penalty = penalty, .longest_factor = 0, .longest_more = longest};
}

std::vector<Translation> search(SequenceToSequence& model, const Sources& sources, const BeamOptions& options) {
  return beam_search(*model, sources.tokens, sources.lengths, begin, end, options);
}

// log p of the next token, [V], in float64.
at::Tensor log_probabilities(SequenceToSequence& model, DecoderState& state, Token token) {
  return model->logits(model->step(state, at::tensor({static_cast<std::int64_t>(token)}, at::kLong)))[0]
      .to(at::kDouble)
      .log_softmax(0);
}

TEST(BeamSearch, ABeamOfOneTakesTheMostProbableToken) {
  const torch::NoGradGuard no_grad;
  const Sources sources = some_sources();
  for (const std::string& mechanism : mechanisms)
    for (const std::uint64_t seed : {1, 2, 3}) {
      SequenceToSequence model = make(mechanism, seed);
      const std::vector<Translation> found = search(model, sources, options_of(1, 7));
      for (std::int64_t row = 0; row < 4; ++row) {
        const Sources one = sources.row(row);
        DecoderState state = model->read(one.tokens, one.lengths);
        Translation expected{.tokens = {}, .log_probability = 0, .ended = false};
        for (Token before = begin; expected.tokens.size() < 7;) {
          const at::Tensor log_p = log_probabilities(model, state, before);
          before = static_cast<Token>(log_p.argmax().item<std::int64_t>());
          expected.log_probability += log_p[before].item<double>();
          if (before == end) {
            expected.ended = true;
            break;
          }
          expected.tokens.push_back(before);
        }
        const Translation& ours = found[static_cast<std::size_t>(row)];
        EXPECT_EQ(ours.tokens, expected.tokens) << mechanism << " " << seed;
        EXPECT_EQ(ours.ended, expected.ended);
        EXPECT_NEAR(ours.log_probability, expected.log_probability, 1e-4);
      }
    }
}

struct Best {
  std::vector<Token> tokens;
  double worth = -INFINITY, log_probability = 0;
};

// Every sequence of at most `longest` tokens that ends, worth log p / n^penalty.
void try_all(SequenceToSequence& model, const DecoderState& state, const std::vector<Token>& tokens, double so_far,
             std::int64_t longest, double penalty, Best& best) {
  DecoderState next = state;
  const at::Tensor log_p = log_probabilities(model, next, tokens.empty() ? begin : tokens.back());
  const double whole = so_far + log_p[end].item<double>(),
               worth = whole / std::pow(static_cast<double>(tokens.size() + 1), penalty);
  if (worth > best.worth) best = {tokens, worth, whole};
  if (std::ssize(tokens) + 1 == longest) return;
  for (Token token = 0; token < vocabulary; ++token) {
    if (token == end) continue;
    std::vector<Token> longer = tokens;
    longer.push_back(token);
    try_all(model, next, longer, so_far + log_p[token].item<double>(), longest, penalty, best);
  }
}

TEST(BeamSearch, AWideBeamFindsTheBestOfAll) {
  const torch::NoGradGuard no_grad;
  const Sources one = some_sources().row(0);
  std::size_t longest_found = 0;
  for (const std::string& mechanism : mechanisms)
    for (const double penalty : {0.0, 0.6, 1.0, 2.0}) {
      SequenceToSequence model = make(mechanism, 4);
      Best best;
      try_all(model, model->read(one.tokens, one.lengths), {}, 0, 4, penalty, best);
      const std::vector<Translation> found = search(model, one, options_of(1000, 4, penalty));
      EXPECT_EQ(found[0].tokens, best.tokens) << mechanism << " " << penalty;
      EXPECT_NEAR(found[0].log_probability, best.log_probability, 1e-4);
      EXPECT_TRUE(found[0].ended);
      longest_found = std::max(longest_found, found[0].tokens.size());
    }
  EXPECT_GE(longest_found, 2U);  // else any search would do
}

TEST(BeamSearch, SourcesTogetherGiveWhatEachGivesAlone) {
  const torch::NoGradGuard no_grad;
  const Sources sources = some_sources();
  for (const std::string& mechanism : mechanisms)
    for (const std::string cell : {"gru", "lstm"})
      for (const std::int64_t beam : {1, 3, 5}) {
        SequenceToSequence model = make(mechanism, 5, cell);
        const BeamOptions options{.beam = beam};
        const std::vector<Translation> together = search(model, sources, options);
        ASSERT_EQ(together.size(), 4U);
        for (std::int64_t row = 0; row < 4; ++row) {
          const Translation alone = search(model, sources.row(row), options)[0],
                            &ours = together[static_cast<std::size_t>(row)];
          EXPECT_EQ(ours.tokens, alone.tokens) << mechanism << " " << cell << " " << beam;
          EXPECT_EQ(ours.ended, alone.ended);
          EXPECT_NEAR(ours.log_probability, alone.log_probability, 1e-4);
        }
      }
}

TEST(BeamSearch, TellsTheAlignmentOfWhatItFinds) {
  const torch::NoGradGuard no_grad;
  const Sources sources = some_sources();
  for (const std::string mechanism : {"bahdanau", "luong_general_local_m"}) {
    SequenceToSequence model = make(mechanism, 5);
    const std::vector<Translation> found = search(model, sources, {.beam = 3});
    const at::Tensor weights = alignment_weights(*model, sources.tokens, sources.lengths, begin, found);
    std::size_t longest = 0;
    for (std::int64_t row = 0; row < 4; ++row) {
      const std::vector<Token>& tokens = found[static_cast<std::size_t>(row)].tokens;
      longest = std::max(longest, tokens.size());
      // Step by step, of this source alone.
      const Sources own = sources.row(row);
      std::vector<std::int64_t> inputs{begin};
      inputs.insert(inputs.end(), tokens.begin(), tokens.end());
      const at::Tensor alone =
          model->weights(model->read(own.tokens, own.lengths), torch::tensor(inputs, at::kLong).unsqueeze(0));
      const at::Tensor ours = weights[row].narrow(1, 0, alone.size(2)).narrow(2, 0, alone.size(3));
      EXPECT_TRUE(ours.allclose(alone[0], 1e-4, 1e-6)) << mechanism;
      EXPECT_NEAR(weights[row].sum().item<double>(), ours.sum().item<double>(), 1e-6);  // nothing beyond
      EXPECT_GT(ours.abs().sum().item<double>(), 0);
    }
    EXPECT_EQ(weights.size(2), static_cast<std::int64_t>(longest) + 1);
  }
  SequenceToSequence none = make("none", 5);
  EXPECT_NE(usage_error_of([&] {
              alignment_weights(*none, sources.tokens, sources.lengths, begin, search(none, sources, {}));
            }).find("expected a model with an alignment, got none"),
            std::string::npos);
}

// A model that shuns or likes the end, whatever it reads.
SequenceToSequence with_end(float bias) {
  SequenceToSequence model = make("bahdanau", 6);
  const torch::NoGradGuard no_grad;
  for (const auto& parameter : model->named_parameters())
    if (parameter.key() == "output_bias") parameter.value()[end] = bias;
  return model;
}

TEST(BeamSearch, AlwaysEnds) {
  const Sources sources = some_sources();
  SequenceToSequence endless = with_end(-1e4F), mute = with_end(1e4F);
  for (const std::int64_t beam : {1, 5}) {
    const std::vector<Translation> cut =
        search(endless, sources, {.beam = beam, .longest_factor = 1.5, .longest_more = 2});
    const std::vector<std::size_t> longest{8, 5, 7, 8};  // 1.5 n + 2, rounded
    for (std::size_t row = 0; row < 4; ++row) {
      EXPECT_EQ(cut[row].tokens.size(), longest[row]);
      EXPECT_FALSE(cut[row].ended);
    }
    for (const Translation& each : search(mute, sources, {.beam = beam})) {
      EXPECT_TRUE(each.tokens.empty() && each.ended);
      EXPECT_NEAR(each.log_probability, 0, 1e-6);
    }
    EXPECT_EQ(search(endless, sources, options_of(beam, 0))[0].tokens.size(), 1U);
  }
  EXPECT_TRUE(search(endless, {at::zeros({0, 3}, at::kLong), at::zeros({0}, at::kLong)}, {}).empty());
}

TEST(BeamSearch, RefusesWhatMakesNoSense) {
  SequenceToSequence model = make("none", 1);
  const auto refused = [&](const BeamOptions& options) {
    return usage_error_of([&] { search(model, some_sources(), options); });
  };
  EXPECT_NE(refused({.beam = 0}).find("beam: expected"), std::string::npos);
  EXPECT_NE(refused({.length_penalty = -1}).find("length penalty: expected"), std::string::npos);
  SequenceToSequence broken = with_end(std::nanf(""));
  EXPECT_THROW(search(broken, some_sources(), {}), Error);
}

}  // namespace
}  // namespace cogwheel::tasks::translation::beam_search_test
