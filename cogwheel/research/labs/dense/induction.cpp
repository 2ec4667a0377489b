// Learning in context, twice. An induction head: on text that repeats it copies what followed last time. And regression
// from examples: a layer of linear attention is a step of gradient descent on them; von Oswald et al., "Transformers
// Learn In-Context by Gradient Descent" (2022).
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cogwheel/core/error.h"
#include "cogwheel/ops/pairwise/attention.h"
#include "cogwheel/ops/recurrent/recurrent.h"
#include "cogwheel/research/labs/drawn_tensor.h"
#include "cogwheel/research/labs/lab.h"
#include "cogwheel/research/labs/lab_training.h"
#include "cogwheel/research/labs/one_thread.h"

namespace cogwheel::labs::induction {
namespace {

LabParameters parameters() {
  using enum LabParameter::Kind;
  return {{{"vocabulary", {16}, {2, 1024}, "symbols of the text that repeats"},
           {"half", {12}, {2, 256}, "symbols before it repeats, all different"},
           {"width", {32}, {8, 256}, "of the head"},
           {"steps", {150}, {1, 1000000}, "of its training"},
           {"batch", {64}, {1, 4096}, "texts, or tasks, of a training step"},
           {"learning_rate", {0.01}, {0, 1, true}, "of the first step; it falls to 0 as a cosine", real},
           {"examples", {16}, {1, 1024}, "N, of a regression task"},
           {"inputs", {8}, {1, 64}, "d, numbers of an example's x"},
           {"layers", {16}, {1, 256}, "of linear attention, a gradient step each"},
           {"regression_steps", {600}, {1, 1000000}, "of training the layer that learns tasks"},
           {"tasks", {1000}, {10, 100000}, "regression tasks that are measured"},
           {"seed", {1}, {0, 1e15}, "of the random numbers"}}};
}

void check(const LabParameters& given) {
  if (given.whole("half") > given.whole("vocabulary"))
    throw UsageError(expected_got("half", fmt::format("at most the vocabulary of {}", given.whole("vocabulary")),
                                  std::to_string(given.whole("half"))));
}

// Texts [batch, 2 half], each of different symbols, twice.
at::Tensor draw_texts(std::int64_t batch, std::int64_t vocabulary, std::int64_t half, Draws& draws) {
  const at::Tensor keys = normal_tensor({batch, vocabulary}, 1, draws);
  const at::Tensor text = keys.argsort(1, false).narrow(1, 0, half);
  return at::cat({text, text}, 1);
}

// The previous symbol is given to the keys, which a lower layer would do; the head has to learn to compare.
struct Head {
  at::Tensor embedding, query, key, value, read, bias;
  std::string mechanism;

  at::Tensor logits(const at::Tensor& texts) const {  // of the next symbol
    const at::Tensor x = embedding.index_select(0, texts.reshape(-1)).view({texts.size(0), texts.size(1), -1});
    const at::Tensor previous = at::constant_pad_nd(x, {0, 0, 1, -1});
    ops::AttentionOptions options;
    options.causal = true;
    const at::Tensor found = ops::attention(at::matmul(x, query).unsqueeze(1), at::matmul(previous, key).unsqueeze(1),
                                            at::matmul(x, value).unsqueeze(1), mechanism, options);
    return at::matmul(found.squeeze(1), read) + bias;
  }
  // Mean losses of the first half and of the second.
  std::pair<at::Tensor, at::Tensor> losses(const at::Tensor& texts) const {
    const std::int64_t places = texts.size(1) - 1, half = texts.size(1) / 2;
    const at::Tensor loss = -at::log_softmax(logits(texts.narrow(1, 0, places)), -1)
                                 .gather(2, texts.narrow(1, 1, places).unsqueeze(2))
                                 .squeeze(2);
    return {loss.narrow(1, 0, half - 1).mean(), loss.narrow(1, half, places - half).mean()};
  }
};

struct LearnedHead {
  double first = 0, second = 0;
  pages::ChartSeries curve;
};

LearnedHead learn_head(const LabParameters& given, const std::string& mechanism) {
  Draws draws(static_cast<std::uint64_t>(given.whole("seed")), 0);
  const std::int64_t vocabulary = given.whole("vocabulary"), half = given.whole("half"), width = given.whole("width");
  const double deviation = 1 / std::sqrt(3 * static_cast<double>(width));
  const auto matrix = [&](std::int64_t rows, std::int64_t columns, double size) {
    return normal_tensor({rows, columns}, size, draws).to(at::kFloat).requires_grad_(true);
  };
  Head head;
  head.mechanism = mechanism;
  head.embedding = matrix(vocabulary, width, 1);
  head.query = matrix(width, width, deviation);
  // Equal at first, so that a symbol matches itself; else softmax first learns only how often symbols come.
  head.key = head.query.detach().clone().requires_grad_(true);
  head.value = matrix(width, width, deviation);
  head.read = matrix(width, vocabulary, deviation);
  head.bias = at::zeros({vocabulary}, at::kFloat).requires_grad_(true);
  const TrainedCurve curve = train_lab(
      {{"embedding", head.embedding},
       {"query", head.query},
       {"key", head.key},
       {"value", head.value},
       {"read", head.read},
       {"bias", head.bias}},
      given.whole("steps"), given.number("learning_rate"),
      [&](std::int64_t) { return head.losses(draw_texts(given.whole("batch"), vocabulary, half, draws)).second; });
  const auto [first, second] = head.losses(draw_texts(256, vocabulary, half, draws));
  return {first.item<double>(),
          second.item<double>(),
          {.name = mechanism, .x = curve.step, .y = curve.loss, .points = false}};
}

struct Tasks {
  at::Tensor x, y;          // [B, N, d], [B, N, 1]
  at::Tensor asked, truth;  // [B, 1, d], [B, 1, 1]
};

Tasks draw_tasks(std::int64_t count, const LabParameters& given, Draws& draws) {
  const std::int64_t examples = given.whole("examples"), inputs = given.whole("inputs");
  Tasks tasks{.x = normal_tensor({count, examples, inputs}, 1, draws),
              .y = {},
              .asked = normal_tensor({count, 1, inputs}, 1, draws),
              .truth = {}};
  const at::Tensor weight = normal_tensor({count, inputs, 1}, 1 / std::sqrt(static_cast<double>(inputs)), draws);
  tasks.y = at::matmul(tasks.x, weight), tasks.truth = at::matmul(tasks.asked, weight);
  return tasks;
}

double squared_error(const at::Tensor& found, const at::Tensor& truth) {
  return ((found - truth).square().mean() / truth.square().mean()).item<double>();
}

// Gradient descent from 0 on ½ Σ (w·x_i − y_i)², predictions for the asked x after each step.
std::vector<at::Tensor> descent(const Tasks& tasks, std::int64_t steps, double rate) {
  at::Tensor weight = at::zeros({tasks.x.size(0), tasks.x.size(2), 1}, at::kDouble);
  std::vector<at::Tensor> predictions;
  for (std::int64_t step = 0; step < steps; ++step) {
    weight = weight - rate * at::matmul(tasks.x.transpose(1, 2), at::matmul(tasks.x, weight) - tasks.y);
    predictions.push_back(at::matmul(tasks.asked, weight));
  }
  return predictions;
}

// The same by layers of linear attention over tokens (x, what is left of y): keys and queries read x, values rate times
// the rest, and the layer subtracts what it finds. The asked token begins with 0 and ends with minus its prediction.
std::vector<at::Tensor> layers_of_attention(const Tasks& tasks, std::int64_t layers, double rate) {
  const at::Tensor points = at::cat({tasks.x, tasks.asked}, 1).unsqueeze(1);
  at::Tensor rest = at::cat({tasks.y, at::zeros_like(tasks.truth)}, 1);
  ops::RecurrentOptions options;
  options.causal = false, options.scale = 1.0;
  std::vector<at::Tensor> predictions;
  const std::int64_t examples = tasks.x.size(1);
  at::Tensor keys = points.clone();
  keys.select(2, examples).zero_();  // an example that has no y is no example
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const at::Tensor found =
        std::get<0>(ops::recurrent(points, keys, rate * rest.unsqueeze(1), "linear_attention", options)).squeeze(1);
    rest = rest - found;
    predictions.push_back(-rest.narrow(1, examples, 1));
  }
  return predictions;
}

// One layer of linear attention that is trained on tasks: prediction = asked·W Σ (x_i W' ) y_i, all matrices free.
struct LearnedLayer {
  at::Tensor query, key, value;  // [d, d], [d, d], []

  at::Tensor predict(const Tasks& tasks) const {
    const at::Tensor scores = at::matmul(at::matmul(tasks.asked, query), at::matmul(tasks.x, key).transpose(1, 2));
    return at::matmul(scores, tasks.y) * value / static_cast<double>(tasks.x.size(1));
  }
};

LearnedLayer learn_layer(const LabParameters& given) {
  Draws draws(static_cast<std::uint64_t>(given.whole("seed")), 2);
  const std::int64_t inputs = given.whole("inputs");
  const double deviation = 0.5 / std::sqrt(static_cast<double>(inputs));
  LearnedLayer layer;
  layer.query = normal_tensor({inputs, inputs}, deviation, draws).requires_grad_(true);
  layer.key = normal_tensor({inputs, inputs}, deviation, draws).requires_grad_(true);
  layer.value = at::ones({}, at::kDouble).requires_grad_(true);
  train_lab({{"query", layer.query}, {"key", layer.key}, {"value", layer.value}}, given.whole("regression_steps"),
            given.number("learning_rate"), [&](std::int64_t) {
              const Tasks tasks = draw_tasks(4 * given.whole("batch"), given, draws);
              return (layer.predict(tasks) - tasks.truth).square().mean();
            });
  for (at::Tensor* each : {&layer.query, &layer.key, &layer.value}) *each = each->detach();
  return layer;
}

// The rate of the one step from 0 whose predictions are nearest to the truth: a regression of truth on Σ y_i x_i·x.
double best_rate(const Tasks& tasks) {
  const at::Tensor step = descent(tasks, 1, 1).front();
  return ((step * tasks.truth).sum() / step.square().sum()).item<double>();
}

LabResult run(const LabParameters& given, const LabHost& host) {
  using enum Finding::Relation;
  using enum Finding::Whose;
  const OneThread one_thread;
  const LearnedHead softmax = learn_head(given, "softmax"), cog = learn_head(given, "cog");
  host.progress(fmt::format("heads: {:.3f} and {:.3f} nats on what repeats", softmax.second, cog.second));
  const double guess = std::log(static_cast<double>(given.whole("vocabulary")));

  Draws draws(static_cast<std::uint64_t>(given.whole("seed")), 1);
  const Tasks tasks = draw_tasks(given.whole("tasks"), given, draws);
  const double rate = best_rate(tasks);
  const std::int64_t layers = given.whole("layers");
  // Of many steps a smaller rate, below 2 over the largest eigenvalue of XᵀX of nearly all tasks.
  const double root =
      std::sqrt(static_cast<double>(given.whole("examples"))) + std::sqrt(static_cast<double>(given.whole("inputs")));
  const double slow = 1 / (root * root);
  const std::vector<at::Tensor> steps = descent(tasks, layers, slow),
                                attended = layers_of_attention(tasks, layers, slow);
  double apart = 0;
  pages::ChartSeries by_layers{.name = "layers of linear attention", .x = {}, .y = {}, .line = false},
      by_steps{.name = "steps of gradient descent", .x = {}, .y = {}, .points = false, .expected = true};
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const auto at = static_cast<std::size_t>(layer);
    apart = std::max(apart, (steps[at] - attended[at]).abs().max().item<double>());
    by_layers.x.push_back(static_cast<double>(layer + 1)), by_steps.x.push_back(static_cast<double>(layer + 1));
    by_layers.y.push_back(squared_error(attended[at], tasks.truth));
    by_steps.y.push_back(squared_error(steps[at], tasks.truth));
  }
  const double one_step = squared_error(rate * descent(tasks, 1, 1).front(), tasks.truth);
  const LearnedLayer layer = learn_layer(given);
  const double learned = squared_error(layer.predict(tasks), tasks.truth);
  // Of the product of its matrices, how much is a multiple of I, which gradient descent's is.
  const at::Tensor product = at::matmul(layer.query, layer.key.t());
  const double identity =
      (product.trace().square() / (static_cast<double>(given.whole("inputs")) * product.square().sum())).item<double>();

  return {
      .answer =
          fmt::format("Nothing of a new text can be known before it repeats, and almost all of it after: {:.2f} and "
                      "{:.2f} nats with softmax. And {} layers of linear attention are {} steps of gradient descent "
                      "on the examples in the context, to rounding; a layer that is trained finds the best step.",
                      softmax.first, softmax.second, layers, layers),
      .findings =
          {{"Softmax: loss where the text is new, of that of a guess", ours, above, 0.7, 0, softmax.first / guess},
           {"Softmax: loss where it repeats, of that of a guess", ours, at_most, 0.1, 0, softmax.second / guess},
           {"Softmax: loss where the text is new less where it repeats", direction, above, 0, 0,
            softmax.first - softmax.second},
           {"Cog: loss where it repeats, of that of a guess", ours, at_most, 0.1, 0, cog.second / guess},
           {"Regression: largest difference of layers of linear attention from steps of gradient descent", ours, near,
            0, 1e-9, apart},
           {fmt::format("Regression: squared error after {} layers less that after one, of the answers'", layers),
            direction, at_most, 0, 0, by_layers.y.back() - by_layers.y.front()},
           {"Regression: error of a layer that is trained over that of the best gradient step", ours, near, 1, 0.1,
            learned / one_step},
           {"Regression: share of W_Q W_Kᵀ of that layer that is a multiple of I, as gradient descent's is", ours,
            above, 0.9, 0, identity}},
      .charts = {{.title = "Learning to copy what repeats",
                  .x = {.title = "training steps"},
                  .y = {.title = "nats a symbol, second half"},
                  .series = {softmax.curve, cog.curve},
                  .marks = {{pages::ChartMark::Axis::y, guess, "a guess"}}},
                 {.title = "Regression in context",
                  .x = {.title = "layers, or steps"},
                  .y = {.title = "squared error, of the answers'", .logarithmic = true},
                  .series = {by_layers, by_steps},
                  .marks = {{pages::ChartMark::Axis::y, one_step, "the best single step"},
                            {pages::ChartMark::Axis::y, learned, "a trained layer"}}}},
      .assumptions = {
          {"Previous symbols are given.",
           "Keys are those of the symbol before, which a lower layer of a transformer learns to provide. Every text is "
           "new, "
           "so that nothing can be learned by heart."},
          {"Tasks are linear and without noise.",
           "y = w·x with a w of its own for each task, x normal. With as many examples as numbers of x or more, w "
           "could be "
           "solved for; gradient descent gets there by steps."},
          {"Attention is linear.",
           "Softmax, by which real models attend, makes no such step exactly: the post only cites that they learn in "
           "context."}}};
}

}  // namespace
}  // namespace cogwheel::labs::induction

namespace cogwheel::labs {
LabEntry induction_lab() {
  return {"induction",
          "Learning in context",
          "Does attention learn from its context: to continue what repeats, and to fit a line through examples?",
          induction::parameters(),
          induction::run,
          induction::check,
          {"steps"}};
}
}  // namespace cogwheel::labs
