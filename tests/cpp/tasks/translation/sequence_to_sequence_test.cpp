// Sequence-to-sequence models against their formulas, written out for one sentence at a time, without padding.
#include "cogwheel/tasks/translation/sequence_to_sequence.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <map>

#include "cogwheel/core/token.h"
#include "support/usage_error_of.h"

namespace cogwheel::tasks::translation::sequence_to_sequence_test {
namespace {

constexpr std::int64_t vocabulary = 11, width = 8, poison = 9;
constexpr double radius = 2.5;
using Parameters = std::map<std::string, at::Tensor>;
using Sentence = std::vector<std::int64_t>;

// Sources of unlike lengths; targets without begin and end.
const std::vector<Sentence> sources{{3, 4, 5, 6, 7, 3, 2}, {8, 2}, {5, 7, 7, 2}};
const std::vector<Sentence> targets{{4, 6, 5}, {7, 8, 3, 3, 5}, {6}};

struct Case {
  std::string mechanism, cell;
  std::int64_t layers = 1;
  bool feeding = false, tied = true;
  std::int64_t feed_forward = 0;

  std::string name() const { return mechanism + " " + cell + (feeding ? " with input feeding" : ""); }
  bool has(const char* part) const { return mechanism.find(part) != std::string::npos; }
};
const std::vector<Case> cases{{"bahdanau", "gru"},
                              {"bahdanau", "lstm", 2, false, false, 12},
                              {"bahdanau_cog", "gru", 2},
                              {"luong_general", "lstm", 2, false, true, 12},
                              {"luong_general", "gru", 2, true, false},
                              {"luong_dot_local_m", "gru", 1, true},
                              {"luong_dot_local_m", "lstm"},
                              {"luong_general_local_p", "gru", 1, true, true, 12},
                              {"luong_general_local_p", "lstm", 2},
                              {"luong_concat", "gru"},
                              {"none", "gru", 2, false, true, 12},
                              {"none", "lstm", 1, true, false}};

SequenceToSequence make(const Case& of, at::ScalarType type = at::kDouble) {
  SequenceToSequence model(SequenceToSequenceOptions{.vocabulary = vocabulary,
                                                     .context = 20,
                                                     .layers = of.layers,
                                                     .width = width,
                                                     .feed_forward = of.feed_forward,
                                                     .cell = of.cell,
                                                     .mechanism = of.mechanism,
                                                     .radius = radius,
                                                     .input_feeding = of.feeding,
                                                     .tied_embeddings = of.tied});
  model->initialize(7);
  model->to(type);
  const torch::NoGradGuard no_grad;
  for (const auto& parameter : model->named_parameters()) {
    // Biases that are 0 at first would hide that they are forgotten.
    if (parameter.key().find("bias") != std::string::npos)
      parameter.value().add_(
          torch::randn(parameter.value().sizes(), at::make_generator<at::CPUGeneratorImpl>(1), at::kDouble), 0.3);
    else
      parameter.value().mul_(1.5);
  }
  return model;
}

struct Given {
  at::Tensor source, lengths, inputs, targets;
};

at::Tensor rows(const std::vector<Sentence>& sentences, std::int64_t filler, std::int64_t wider) {
  std::size_t longest = 0;
  for (const Sentence& each : sentences) longest = std::max(longest, each.size());
  const at::Tensor all =
      at::full({std::ssize(sentences), static_cast<std::int64_t>(longest) + wider}, filler, at::kLong);
  for (std::size_t row = 0; row < sentences.size(); ++row)
    all[static_cast<std::int64_t>(row)].narrow(0, 0, std::ssize(sentences[row])).copy_(at::tensor(sentences[row]));
  return all;
}

// A batch of those sentences; padding is `filler`.
Given batch_of(const std::vector<std::size_t>& chosen, std::int64_t filler = 0, std::int64_t wider = 0) {
  std::vector<Sentence> source, inputs, outputs;
  Sentence lengths;
  for (const std::size_t i : chosen) {
    source.push_back(sources[i]);
    lengths.push_back(std::ssize(sources[i]));
    inputs.push_back(targets[i]);
    inputs.back().insert(inputs.back().begin(), 1);
    outputs.push_back(targets[i]);
    outputs.back().push_back(2);
  }
  return {rows(source, filler, wider), at::tensor(lengths), rows(inputs, filler, wider),
          rows(outputs, ignored_target, wider)};
}
const std::vector<std::size_t> all_sentences{0, 1, 2};

at::Tensor loss_of(SequenceToSequence& model, const Given& given, double smoothing = 0) {
  return model->loss(given.source, given.lengths, given.inputs, given.targets, smoothing);
}

// Formulas: vectors and rows of one sentence.

at::Tensor affine(const Parameters& p, const std::string& name, const at::Tensor& x) {
  const at::Tensor product = x.matmul(p.at(name + ".weight").t());
  return p.contains(name + ".bias") ? product + p.at(name + ".bias") : product;
}

struct Cell {
  at::Tensor h, c;
};

Cell stepped(const Parameters& p, const std::string& network, const std::string& suffix, const at::Tensor& x,
             const Cell& before) {
  const auto part = [&](const char* name) { return p.at(network + "." + name + suffix); };
  const at::Tensor of_x = part("weight_ih").matmul(x) + part("bias_ih"),
                   of_h = part("weight_hh").matmul(before.h) + part("bias_hh");
  const std::int64_t units = before.h.size(0);
  const auto gate = [&](const at::Tensor& all, std::int64_t index) { return all.narrow(0, index * units, units); };
  if (of_x.size(0) == 3 * units) {
    const at::Tensor r = (gate(of_x, 0) + gate(of_h, 0)).sigmoid(), z = (gate(of_x, 1) + gate(of_h, 1)).sigmoid(),
                     n = (gate(of_x, 2) + r * gate(of_h, 2)).tanh();
    return {(1 - z) * n + z * before.h, before.c};
  }
  const at::Tensor all = of_x + of_h;
  const at::Tensor c = gate(all, 1).sigmoid() * before.c + gate(all, 0).sigmoid() * gate(all, 2).tanh();
  return {gate(all, 3).sigmoid() * c.tanh(), c};
}

struct Encoded {
  at::Tensor h;             // [n, width]
  std::vector<Cell> first;  // of the decoder's layers
};

Encoded encoded(const Case& of, const Parameters& p, const Sentence& source) {
  at::Tensor h = at::embedding(p.at("embedding"), at::tensor(source));
  const std::int64_t n = h.size(0);
  const at::Tensor zero = at::zeros({width / 2}, h.options());
  std::vector<Cell> ends;
  for (std::int64_t layer = 0; layer < of.layers; ++layer) {
    std::vector<at::Tensor> forward(static_cast<std::size_t>(n)), reverse(forward);
    Cell there{zero, zero}, back{zero, zero};
    const std::string suffix = "_l" + std::to_string(layer);
    for (std::int64_t j = 0; j < n; ++j) {
      there = stepped(p, "encoder", suffix, h[j], there);
      forward[static_cast<std::size_t>(j)] = there.h;
      back = stepped(p, "encoder", suffix + "_reverse", h[n - 1 - j], back);
      reverse[static_cast<std::size_t>(n - 1 - j)] = back.h;
    }
    ends.push_back({at::cat({there.h, back.h}), at::cat({there.c, back.c})});
    h = at::cat({at::stack(forward), at::stack(reverse)}, -1);
  }
  Encoded result{h, {}};
  for (std::int64_t layer = 0; layer < of.layers; ++layer) {
    const Cell& end = ends[static_cast<std::size_t>(layer)];
    const auto first = [&](std::int64_t state, const at::Tensor& x) {
      return affine(p, "first_states." + std::to_string(state), x).tanh();
    };
    result.first.push_back({first(layer, end.h), of.cell == "lstm" ? first(of.layers + layer, end.c) : at::Tensor()});
  }
  return result;
}

// The weights of step t, [n].
at::Tensor weights_of(const Case& of, const Parameters& p, const at::Tensor& s, const at::Tensor& h, std::int64_t t) {
  at::Tensor score;
  if (of.has("bahdanau") || of.has("concat"))
    score = (affine(p, "alignment.query", s) + affine(p, "alignment.key", h)).tanh().matmul(p.at("alignment.score")[0]);
  else
    score = (of.has("general") ? affine(p, "alignment.key", h) : h).matmul(s);
  at::Tensor distance;
  const at::Tensor j = at::arange(h.size(0), h.options());
  if (of.has("local_m")) distance = j - static_cast<double>(t);
  if (of.has("local_p"))
    distance = j - static_cast<double>(h.size(0)) *
                       affine(p, "alignment.position", s).tanh().dot(p.at("alignment.position_score")[0]).sigmoid();
  at::Tensor size = (of.has("cog") ? score.abs() : score).exp();
  if (distance.defined()) size = size * (distance.detach().abs() <= radius);
  at::Tensor a = size / size.sum().clamp_min(1e-300);
  if (of.has("cog")) a = a * score.detach().sign();
  if (of.has("local_p")) a = a * (-distance.square() / (2 * (radius / 2) * (radius / 2))).exp();
  return a;
}

struct Sums {
  at::Tensor loss;     // over tokens
  at::Tensor weights;  // [T, n]
};

Sums formula(const Case& of, const Parameters& p, const Sentence& source, const Sentence& target, double smoothing) {
  const auto [h, first] = encoded(of, p, source);
  std::vector<Cell> cells = first;
  const bool aligns = of.mechanism != "none", luong = of.has("luong"), feeds = luong && of.feeding;
  at::Tensor fed = at::zeros({width}, h.options()), sum = at::zeros({}, h.options());
  std::vector<at::Tensor> weights;
  std::int64_t before = 1;
  for (std::int64_t t = 0; t <= std::ssize(target); ++t) {
    const at::Tensor y = p.at(of.tied ? "embedding" : "target_embedding")[before];
    at::Tensor c, input = y;
    const auto look = [&](const at::Tensor& s) {
      weights.push_back(weights_of(of, p, s, h, t));
      c = weights.back().matmul(h);
    };
    if (aligns && !luong) {
      look(cells.back().h);
      input = at::cat({y, c});
    } else if (feeds) {
      input = at::cat({y, fed});
    }
    for (std::size_t layer = 0; layer < cells.size(); ++layer) {
      cells[layer] = stepped(p, "decoder", "_l" + std::to_string(layer), input, cells[layer]);
      input = cells[layer].h;
    }
    const at::Tensor& s = cells.back().h;
    at::Tensor x;
    if (luong) {
      look(s);
      x = affine(p, "alignment.combine", at::cat({c, s})).tanh();
      fed = x;
    } else {
      x = affine(p, "readout", aligns ? at::cat({s, c, y}) : at::cat({s, y})).tanh();
    }
    if (of.feed_forward > 0) x = x + affine(p, "narrow", affine(p, "widen", x).tanh());
    const at::Tensor logits = p.at(of.tied ? "embedding" : "output").matmul(x) + p.at("output_bias");
    const at::Tensor log_p = logits - logits.exp().sum().log();
    before = t < std::ssize(target) ? target[static_cast<std::size_t>(t)] : 2;
    sum = sum - (1 - smoothing) * log_p[before] - smoothing * log_p.mean();
  }
  return {sum, weights.empty() ? at::Tensor() : at::stack(weights)};
}

// The loss and every gradient, by name.
using Results = std::map<std::string, at::Tensor>;

Results with_gradients(const Parameters& parameters, const at::Tensor& loss) {
  loss.backward();
  Results results{{"loss", loss.detach()}};
  for (const auto& [name, parameter] : parameters)
    results[name] = parameter.grad().defined() ? parameter.grad() : at::zeros_like(parameter);
  return results;
}

Results expected_results(const Case& of, SequenceToSequence& model, double smoothing) {
  Parameters parameters;
  for (const auto& parameter : model->named_parameters())
    parameters[parameter.key()] = parameter.value().detach().clone().requires_grad_();
  at::Tensor sum = at::zeros({}, at::kDouble);
  double tokens = 0;
  for (const std::size_t i : all_sentences) {
    sum = sum + formula(of, parameters, sources[i], targets[i], smoothing).loss;
    tokens += static_cast<double>(targets[i].size() + 1);
  }
  return with_gradients(parameters, sum / tokens);
}

Results actual_results(SequenceToSequence& model, const Given& given, double smoothing) {
  Parameters parameters;
  model->zero_grad();
  for (const auto& parameter : model->named_parameters()) parameters[parameter.key()] = parameter.value();
  return with_gradients(parameters, loss_of(model, given, smoothing));
}

double error_of(const at::Tensor& actual, const at::Tensor& expected) {
  const double largest = std::max(expected.abs().max().item<double>(), 1e-300);
  return (actual.to(at::kDouble) - expected).abs().max().item<double>() / largest;
}

TEST(SequenceToSequence, LossAndEveryGradientAreThoseOfTheFormula) {
  for (const Case& of : cases)
    for (const double smoothing : {0.0, 0.1}) {
      SequenceToSequence model = make(of);
      const Results expected = expected_results(of, model, smoothing),
                    actual = actual_results(model, batch_of(all_sentences), smoothing);
      ASSERT_EQ(actual.size(), expected.size()) << of.name();
      for (const auto& [name, value] : expected) {
        EXPECT_GT(value.abs().max().item<double>(), 0) << of.name() << ": " << name;
        EXPECT_LE(error_of(actual.at(name), value), 1e-9) << of.name() << ": " << name;
      }
      model->to(at::kFloat);
      const double single = loss_of(model, batch_of(all_sentences), smoothing).item<double>(),
                   exact = expected.at("loss").item<double>();
      EXPECT_NEAR(single, exact, 4e-6 * exact) << of.name();
    }
}

TEST(SequenceToSequence, WeightsAreThoseThatTheStepsUse) {
  for (const Case& of : cases) {
    SequenceToSequence model = make(of);
    EXPECT_EQ(model->aligns(), of.mechanism != "none");
    if (!model->aligns()) continue;
    Parameters parameters;
    for (const auto& parameter : model->named_parameters()) parameters[parameter.key()] = parameter.value();
    const Given given = batch_of(all_sentences);
    const torch::NoGradGuard no_grad;
    const at::Tensor weights = model->weights(model->read(given.source, given.lengths), given.inputs);
    ASSERT_EQ(weights.sizes(), (std::vector<std::int64_t>{3, 1, 6, 7}));
    for (const std::size_t i : all_sentences) {
      const at::Tensor expected = formula(of, parameters, sources[i], targets[i], 0).weights;
      const at::Tensor ours = weights[static_cast<std::int64_t>(i)][0].narrow(0, 0, expected.size(0));
      EXPECT_LE(error_of(ours.narrow(1, 0, expected.size(1)), expected), 1e-9) << of.name();
      EXPECT_FALSE(ours.narrow(1, expected.size(1), 7 - expected.size(1)).any().item<bool>()) << of.name();
    }
  }
}

TEST(SequenceToSequence, StepByStepIsOneCall) {
  for (const Case& of : cases) {
    SequenceToSequence model = make(of);
    const Given given = batch_of(all_sentences);
    const torch::NoGradGuard no_grad;
    DecoderState state = model->read(given.source, given.lengths);
    const at::Tensor expected = model->predict(state, given.inputs);
    EXPECT_EQ(state.step, 0);
    std::vector<at::Tensor> steps;
    for (std::int64_t t = 0; t < given.inputs.size(1); ++t) {
      // Rows of a state may be chosen, doubled and put in another order at any time.
      const at::Tensor doubled = at::tensor({2, 0, 1, 0}, at::kLong);
      DecoderState other = state.of_entries(doubled);
      const at::Tensor chosen = model->step(other, given.inputs.select(1, t).index_select(0, doubled));
      steps.push_back(model->step(state, given.inputs.select(1, t)));
      EXPECT_TRUE(at::allclose(chosen, steps.back().index_select(0, doubled), 1e-12, 1e-13)) << of.name();
    }
    EXPECT_TRUE(at::allclose(at::stack(steps, 1), expected, 1e-12, 1e-13)) << of.name();
  }
}

TEST(SequenceToSequence, PaddingChangesNoBit) {
  for (const Case& of : cases) {
    SequenceToSequence model = make(of, at::kFloat);
    const Results clean = actual_results(model, batch_of(all_sentences, 0, 2), 0.1);
    Results clean_copies;
    for (const auto& [name, value] : clean) clean_copies[name] = value.clone();
    const Results poisoned = actual_results(model, batch_of(all_sentences, poison, 2), 0.1);
    for (const auto& [name, value] : clean_copies)
      EXPECT_TRUE(at::equal(value, poisoned.at(name))) << of.name() << ": " << name;
    // Not even what is no number, in the source.
    if (of.tied) continue;
    const torch::NoGradGuard no_grad;
    for (const auto& parameter : model->named_parameters())
      if (parameter.key() == "embedding") parameter.value()[poison].fill_(std::nan(""));
    Given given = batch_of(all_sentences, 0, 2);
    given.source = batch_of(all_sentences, poison, 2).source;
    EXPECT_TRUE(at::equal(loss_of(model, given, 0.1), clean_copies.at("loss"))) << of.name();
  }
}

TEST(SequenceToSequence, ASentenceAloneHasTheLossThatItHasAmongOthers) {
  for (const Case& of : cases) {
    SequenceToSequence model = make(of);
    const torch::NoGradGuard no_grad;
    double sum = 0;
    for (const std::size_t i : all_sentences)
      sum += loss_of(model, batch_of({i})).item<double>() * static_cast<double>(targets[i].size() + 1);
    EXPECT_NEAR(loss_of(model, batch_of(all_sentences)).item<double>(), sum / 12, 1e-12) << of.name();
  }
}

TEST(SequenceToSequence, DropoutIsDrawnFromItsSeed) {
  for (const Case& of : cases) {
    SequenceToSequence model = make(of, at::kFloat);
    const Given given = batch_of(all_sentences);
    const auto loss = [&](const nn::Dropout& dropout) {
      return model->loss(given.source, given.lengths, given.inputs, given.targets, 0, dropout).item<double>();
    };
    EXPECT_EQ(loss({0.3, 1}), loss({0.3, 1})) << of.name();
    EXPECT_NE(loss({0.3, 1}), loss({0.3, 2})) << of.name();
    EXPECT_EQ(loss({0, 1}), loss({})) << of.name();
  }
}

TEST(SequenceToSequence, SaysWhatItsOptionsMustBe) {
  const auto refused = [](const SequenceToSequenceOptions& options) { return usage_error_of([&] { check(options); }); };
  const SequenceToSequenceOptions good{.vocabulary = 5, .width = 8};
  EXPECT_EQ(refused(good), "nothing thrown");
  SequenceToSequenceOptions bad = good;
  bad.width = 7;
  EXPECT_EQ(refused(bad), "model.width: expected an even number: half of it reads in each direction, got 7");
  bad = good;
  bad.cell = "rnn";
  EXPECT_NE(refused(bad).find("model.cell: expected"), std::string::npos) << refused(bad);
  bad = good;
  bad.mechanism = "bahdanow";
  EXPECT_NE(refused(bad).find("model.mechanism: expected"), std::string::npos) << refused(bad);
  bad = good;
  bad.heads = 3;
  EXPECT_NE(refused(bad).find("model.heads: expected a divisor of model.width (8), got 3"), std::string::npos)
      << refused(bad);
  bad = good;
  bad.context = 1;
  EXPECT_NE(refused(bad).find("model.context: expected at least 2"), std::string::npos) << refused(bad);
  bad = good;
  bad.radius = 0;
  EXPECT_NE(refused(bad).find("model.radius: expected above 0"), std::string::npos) << refused(bad);
}

}  // namespace
}  // namespace cogwheel::tasks::translation::sequence_to_sequence_test
