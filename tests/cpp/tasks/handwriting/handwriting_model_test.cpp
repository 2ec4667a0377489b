// The handwriting model beside a plain loop over its equations, one sequence at a time, and handwriting that it draws.
#include "cogwheel/tasks/handwriting/handwriting_model.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <map>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "cogwheel/tasks/handwriting/mixture_density.h"
#include "cogwheel/tasks/handwriting/pen_sampling.h"
#include "support/usage_error_of.h"

namespace cogwheel::tasks::handwriting::handwriting_test {
namespace {

constexpr std::int64_t vocabulary = 5, sequences = 3, most_points = 7, most_characters = 4;

at::Tensor draw(at::IntArrayRef sizes, std::uint64_t seed) {
  return torch::randn(sizes, at::make_generator<at::CPUGeneratorImpl>(seed), at::kDouble);
}

Handwriting make_model(const std::string& mechanism, std::int64_t layers, std::int64_t of_vocabulary = vocabulary) {
  Handwriting model(HandwritingOptions{.vocabulary = of_vocabulary,
                                       .context = 50,
                                       .layers = layers,
                                       .width = 6,
                                       .mixtures = 3,
                                       .curves = 2,
                                       .mechanism = mechanism});
  model->initialize(3);
  model->to(at::kDouble);
  return model;
}

struct Lines {
  at::Tensor points, lengths, characters, character_lengths;
};

Lines draw_lines() {
  Lines lines{
      .points = draw({sequences, most_points, 3}, 1),
      .lengths = at::tensor({5, 7, 2}, at::kLong),
      .characters = at::tensor({1, 4, 0, 0, 2, 2, 0, 3, 4, 0, 0, 0}, at::kLong).view({sequences, most_characters}),
      .character_lengths = at::tensor({2, 4, 1}, at::kLong)};
  at::Tensor lifts = lines.points.select(2, 2);
  lifts.copy_(lifts > 0);
  for (std::int64_t i = 0; i < sequences; ++i) {
    const auto length = lines.lengths[i].item<std::int64_t>();
    lines.points[i].narrow(0, length, most_points - length).zero_();
  }
  return lines;
}

using Weights = std::map<std::string, at::Tensor>;
Weights weights_of(Handwriting& model) {
  Weights weights;
  for (const auto& parameter : model->named_parameters()) weights[parameter.key()] = parameter.value();
  return weights;
}

struct Expected {
  at::Tensor sum = {};  // of −log p
  std::vector<at::Tensor> windows = {}, kappas = {};
};

// One line without padding, term by term.
Expected by_equations(Handwriting& model, Weights& weights, const at::Tensor& points, const at::Tensor& text) {
  const HandwritingOptions& options = model->options();
  const bool window_there = options.mechanism != "none" && options.vocabulary > 0;
  const std::int64_t width = options.width, curves = options.curves, mixtures = options.mixtures;
  std::vector<at::Tensor> h, c;
  for (std::int64_t layer = 0; layer < options.layers; ++layer) {
    h.push_back(at::zeros({width}, at::kDouble));
    c.push_back(at::zeros({width}, at::kDouble));
  }
  const auto cell = [&](std::int64_t layer, const at::Tensor& x) {
    const std::string name = "layers." + std::to_string(layer) + ".";
    const auto gates = (at::mv(weights[name + "weight_ih_l0"], x) + weights[name + "bias_ih_l0"] +
                        at::mv(weights[name + "weight_hh_l0"], h[layer]) + weights[name + "bias_hh_l0"])
                           .chunk(4);
    c[layer] = gates[1].sigmoid() * c[layer] + gates[0].sigmoid() * gates[2].tanh();
    h[layer] = gates[3].sigmoid() * c[layer].tanh();
  };
  at::Tensor kappa = at::zeros({curves}, at::kDouble), window = at::zeros({window_there ? vocabulary : 0}, at::kDouble);
  Expected expected{.sum = at::zeros({}, at::kDouble)};
  for (std::int64_t t = 0; t + 1 < points.size(0); ++t) {
    cell(0, at::cat({points[t], window}));
    if (window_there) {
      const at::Tensor made = at::mv(weights["window_weight"], h[0]) + weights["window_bias"];
      const at::Tensor alpha = made.narrow(0, 0, curves).exp(), beta = made.narrow(0, curves, curves).exp();
      kappa = kappa + made.narrow(0, 2 * curves, curves).exp();
      std::vector<at::Tensor> phi;
      window = at::zeros({vocabulary}, at::kDouble);
      for (std::int64_t u = 1; u <= text.size(0) + 1; ++u) {
        phi.push_back((alpha * (-beta * (kappa - u).square()).exp()).sum());
        if (u <= text.size(0)) window = window + phi.back() * at::one_hot(text[u - 1], vocabulary).to(at::kDouble);
      }
      expected.windows.push_back(at::stack(phi));
      expected.kappas.push_back(kappa);
    }
    for (std::int64_t layer = 1; layer < options.layers; ++layer)
      cell(layer, at::cat({points[t], window, h[layer - 1]}));
    const at::Tensor y = at::mv(weights["output.weight"], at::cat(h)) + weights["output.bias"];
    const auto part = [&](std::int64_t index) { return y.narrow(0, 1 + index * mixtures, mixtures); };
    const at::Tensor sx = part(3).exp(), sy = part(4).exp(), rho = part(5).tanh(), left = 1 - rho * rho;
    const at::Tensor dx = (points[t + 1][0] - part(1)) / sx, dy = (points[t + 1][1] - part(2)) / sy;
    const at::Tensor normal =
        (-(dx * dx + dy * dy - 2 * rho * dx * dy) / (2 * left)).exp() / (2 * std::numbers::pi * sx * sy * left.sqrt());
    const at::Tensor lifted = y[0].sigmoid();
    const at::Tensor coin = points[t + 1][2].item<double>() > 0 ? lifted : 1 - lifted;
    expected.sum = expected.sum - ((at::softmax(part(0), 0) * normal).sum() * coin).log();
  }
  return expected;
}

std::vector<at::Tensor> gradients_of(const at::Tensor& loss, Handwriting& model) {
  model->zero_grad();
  loss.backward();
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : model->parameters()) gradients.push_back(parameter.grad().clone());
  return gradients;
}

at::Tensor loss_of(Handwriting& model, const Lines& lines) {
  return model->loss(lines.points, lines.lengths, model->text(lines.characters, lines.character_lengths));
}

TEST(Handwriting, HasTheLossAndGradientsOfItsEquations) {
  const Lines lines = draw_lines();
  for (const char* mechanism : {"graves_window", "none"})
    for (const std::int64_t layers : {1, 3}) {
      Handwriting model = make_model(mechanism, layers);
      Weights weights = weights_of(model);
      at::Tensor sum = at::zeros({}, at::kDouble);
      std::int64_t points = 0;
      for (std::int64_t i = 0; i < sequences; ++i) {
        const auto length = lines.lengths[i].item<std::int64_t>(),
                   characters = lines.character_lengths[i].item<std::int64_t>();
        sum = sum + by_equations(model, weights, lines.points[i].narrow(0, 0, length),
                                 lines.characters[i].narrow(0, 0, characters))
                        .sum;
        points += length - 1;
      }
      const at::Tensor expected = sum / points, loss = loss_of(model, lines);
      EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-9) << mechanism << layers;
      const auto found = gradients_of(loss, model), wanted = gradients_of(expected, model);
      for (std::size_t i = 0; i < found.size(); ++i) {
        EXPECT_TRUE(at::allclose(found[i], wanted[i], 1e-9, 1e-9)) << mechanism << layers << ' ' << i;
        EXPECT_TRUE(wanted[i].any().item<bool>());
      }
    }
}

TEST(Handwriting, ReadsThroughAWindowThatNeverGoesBack) {
  const torch::NoGradGuard no_grad;
  Handwriting model = make_model("graves_window", 3);
  Weights weights = weights_of(model);
  weights["window_weight"].mul_(4);
  const Lines lines = draw_lines();
  const WrittenText text = model->text(lines.characters, lines.character_lengths);
  PenState state = model->first_state(sequences);
  at::Tensor before = state.kappa;
  const auto whole = by_equations(model, weights, lines.points[1], lines.characters[1]);
  for (std::int64_t t = 0; t + 1 < most_points; ++t) {
    const auto predicted = model->forward(lines.points.narrow(1, t, 1), text, state);
    EXPECT_TRUE((state.kappa > before).all().item<bool>());
    EXPECT_TRUE(at::allclose(predicted.window[1][0], whole.windows[t], 1e-9, 1e-11));
    EXPECT_TRUE(at::allclose(state.kappa[1], whole.kappas[t], 1e-9, 1e-11));
    before = state.kappa;
  }
}

TEST(Handwriting, StepsToWhatOneCallGives) {
  const torch::NoGradGuard no_grad;
  const Lines lines = draw_lines();
  for (const char* mechanism : {"graves_window", "none"}) {
    Handwriting model = make_model(mechanism, 3);
    const WrittenText text = model->text(lines.characters, lines.character_lengths);
    PenState at_once = model->first_state(sequences), stepped = model->first_state(sequences);
    const auto whole = model->forward(lines.points, text, at_once);
    for (std::int64_t t = 0; t < most_points; ++t) {
      const auto step = model->forward(lines.points.narrow(1, t, 1), text, stepped);
      EXPECT_TRUE(at::allclose(step.y.select(1, 0), whole.y.select(1, t), 1e-9, 1e-11));
      if (model->has_window()) {
        EXPECT_TRUE(at::allclose(step.window.select(1, 0), whole.window.select(1, t), 1e-9, 1e-11));
      }
    }
  }
}

TEST(Handwriting, TakesNothingFromPadding) {
  Handwriting model = make_model("graves_window", 3);
  const Lines lines = draw_lines();
  Lines poisoned = lines;
  poisoned.points = lines.points.clone();
  poisoned.characters = lines.characters.clone();
  for (std::int64_t i = 0; i < sequences; ++i) {
    const auto length = lines.lengths[i].item<std::int64_t>(),
               characters = lines.character_lengths[i].item<std::int64_t>();
    poisoned.points[i].narrow(0, length, most_points - length).fill_(1e4);
    poisoned.characters[i].narrow(0, characters, most_characters - characters).fill_(3);
  }
  const at::Tensor clean = loss_of(model, lines), other = loss_of(model, poisoned);
  EXPECT_EQ(clean.item<double>(), other.item<double>());
  const auto clean_gradients = gradients_of(clean, model), other_gradients = gradients_of(other, model);
  for (std::size_t i = 0; i < clean_gradients.size(); ++i)
    EXPECT_TRUE(at::equal(clean_gradients[i], other_gradients[i])) << i;
}

// Begins where it promises: after one point the window has moved by a twelfth of a character, near enough.
TEST(Handwriting, BeginsByMovingAlongTheText) {
  const torch::NoGradGuard no_grad;
  Handwriting model = make_model("graves_window", 3);
  const Lines lines = draw_lines();
  PenState state = model->first_state(sequences);
  model->forward(lines.points, model->text(lines.characters, lines.character_lengths), state);
  const double advance = state.kappa.mean().item<double>() / most_points;
  EXPECT_GT(advance, 0.04);
  EXPECT_LT(advance, 0.16);
}

// A window that moves by so much at each point, whatever the pen does.
Handwriting paced_model(double advance) {
  Handwriting model = make_model("graves_window", 1);
  model->to(at::kFloat);
  const torch::NoGradGuard no_grad;
  Weights weights = weights_of(model);
  weights["window_weight"].zero_();
  weights["window_bias"].zero_();
  weights["window_bias"].narrow(0, 4, 2).fill_(std::log(advance));
  return model;
}

TEST(PenSampling, EndsWhereTheWindowIsPastTheText) {
  Handwriting model = paced_model(1);
  const std::vector<Token> text{1, 4, 2};
  const GeneratedStrokes drawn = generate_strokes(model, text, {.seed = 5});
  // κ is 1 at the start, so that it is beyond the text after three more.
  EXPECT_TRUE(drawn.ended);
  ASSERT_EQ(drawn.points.size(), 4u);
  ASSERT_EQ(drawn.window.size(), 4u * 4);
  for (std::size_t point = 0; point < 4; ++point)
    for (std::size_t u = 0; u < 4; ++u)
      EXPECT_NEAR(drawn.window[4 * point + u], 2 * std::exp(-std::pow(double(point) - double(u), 2)), 1e-5);
  const GeneratedStrokes again = generate_strokes(model, text, {.seed = 5}),
                         other = generate_strokes(model, text, {.seed = 6});
  EXPECT_EQ(again.points[1].dx, drawn.points[1].dx);
  EXPECT_NE(other.points[1].dx, drawn.points[1].dx);
}

// The first offset that is drawn leads from the start, which is one of the points.
TEST(PenSampling, BeginsWithTheStart) {
  Handwriting model = make_model("none", 1);
  model->to(at::kFloat);
  const StrokePoint start{.dx = -0.25F, .dy = 0.5F, .ends = false};
  const GeneratedStrokes drawn = generate_strokes(model, {}, {.points = 3, .start = start});
  ASSERT_EQ(drawn.points.size(), 3u);
  EXPECT_EQ(drawn.points[0].dx, start.dx);
  EXPECT_EQ(drawn.points[0].dy, start.dy);
  EXPECT_NE(drawn.points[1].dx, generate_strokes(model, {}, {.points = 3}).points[1].dx);  // it is read
}

// exp(β̂) below the smallest number is no reason to stop.
TEST(PenSampling, SurvivesAWindowWithoutWidth) {
  Handwriting model = paced_model(1);
  const torch::NoGradGuard no_grad;
  weights_of(model)["window_bias"].narrow(0, 2, 2).fill_(-200);
  EXPECT_NO_THROW(generate_strokes(model, std::vector<Token>{1, 4}, {.points_per_character = 2}));
}

TEST(PenSampling, GivesUpAfterFortyPointsACharacter) {
  Handwriting model = paced_model(1e-6);
  const GeneratedStrokes drawn = generate_strokes(model, std::vector<Token>{1, 4}, {});
  EXPECT_FALSE(drawn.ended);
  EXPECT_EQ(drawn.points.size(), 80u);
  EXPECT_EQ(drawn.window.size(), 80u * 3);
  std::int64_t calls = 0;
  EXPECT_EQ(generate_strokes(model, std::vector<Token>{1, 4}, {}, nullptr, [&] { return ++calls < 9; }).points.size(),
            10u);
}

TEST(PenSampling, WithoutAWindowDrawsAsManyPointsAsAsked) {
  for (Handwriting model : {make_model("none", 1), make_model("graves_window", 2, 0)}) {
    model->to(at::kFloat);
    const GeneratedStrokes drawn = generate_strokes(model, {}, {.points = 12});
    EXPECT_TRUE(drawn.ended && drawn.window.empty());
    EXPECT_EQ(drawn.points.size(), 12u);
  }
}

TEST(PenSampling, GoesOnFromStrokesThatItIsGiven) {
  Handwriting model = make_model("graves_window", 2);
  model->to(at::kFloat);
  const PrimedStrokes prime{.points = {{0, 0, false}, {1, -0.5F, false}, {0.25F, 2, true}}, .text = {3, 0}};
  const std::vector<Token> text{1, 2};
  const GeneratedStrokes drawn =
      generate_strokes(model, text, {.bias = 0.5, .seed = 9, .points_per_character = 4}, &prime);
  ASSERT_FALSE(drawn.points.empty());

  const torch::NoGradGuard no_grad;
  std::mt19937_64 generator(9);
  const auto uniform = [&] { return static_cast<double>(generator() >> 11) * 0x1p-53; };
  const WrittenText written = model->text(at::tensor({3, 0, 1, 2}, at::kLong).unsqueeze(0), at::tensor({4}, at::kLong));
  PenState state = model->first_state(1);
  at::Tensor next = at::tensor({0.0, 0.0, 0.0, 1.0, -0.5, 0.0, 0.25, 2.0, 1.0}, at::kFloat).view({1, 3, 3});
  for (std::size_t i = 0; i < drawn.points.size(); ++i) {
    const auto predicted = model->forward(next, written, state);
    for (std::size_t u = 0; i > 0 && u < 3; ++u)
      EXPECT_EQ(drawn.window[3 * (i - 1) + u], predicted.window[0][0][2 + static_cast<std::int64_t>(u)].item<float>());
    const StrokePoint point = draw_point(predicted.y.select(1, -1).squeeze(0), 0.5, uniform);
    EXPECT_EQ(point.dx, drawn.points[i].dx);
    EXPECT_EQ(point.dy, drawn.points[i].dy);
    EXPECT_EQ(point.ends, drawn.points[i].ends);
    next = at::tensor({point.dx, point.dy, point.ends ? 1.0F : 0.0F}, at::kFloat).view({1, 1, 3});
  }
}

TEST(PenSampling, RefusesInOneLine) {
  Handwriting model = paced_model(1);
  const std::vector<Token> text{1};
  EXPECT_EQ(usage_error_of([&] { generate_strokes(model, {}, {}); }),
            "text to write: expected at least one character, got none");
  EXPECT_NE(usage_error_of([&] { generate_strokes(model, text, {.bias = -1}); }).find("bias: expected"),
            std::string::npos);
  const PrimedStrokes nothing;
  EXPECT_EQ(usage_error_of([&] { generate_strokes(model, text, {}, &nothing); }),
            "strokes to begin with: expected at least one point, got none");
}

}  // namespace
}  // namespace cogwheel::tasks::handwriting::handwriting_test
