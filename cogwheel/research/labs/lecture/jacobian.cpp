// What a state at one position has of the tokens at all others: ∂h_u/∂x_k of recurrent networks beside
// ∂K_u/∂x_k of K_u = W_K x_u. By automatic differentiation; for a linear network beside W_h^{u−k} W_x.
#include <ATen/Functions.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "cogwheel/research/labs/drawn_tensor.h"
#include "cogwheel/research/labs/lab.h"
#include "cogwheel/research/labs/lab_training.h"
#include "cogwheel/research/labs/sums.h"
#include "cogwheel/research/labs/trained_models.h"
#include "cogwheel/text/corpus.h"

namespace cogwheel::labs::jacobian {
namespace {

LabParameters parameters() {
  using enum LabParameter::Kind;
  return {{{"width", {32}, {2, 64}, "d, of tokens, states and keys"},
           {"tokens", {20}, {2, 64}, "positions"},
           {"texts", {8}, {1, 64}, "passages over which norms of the trained network are averaged"},
           {"batch", {16}, {1, 4096}, "passages of a training step"},
           {"steps", {400}, {1, 1000000}, "of training, to tell the next character"},
           {"learning_rate", {0.01}, {0, 1, true}, "of the first step; it falls to 0 as a cosine", real},
           {"text_bytes", {1 << 19}, {1 << 12, 1 << 30}, "of the text that the network learns from"},
           seeds_parameter(),
           {"seed", {1}, {0, 1e15}, "of the random numbers"}}};
}

// h_u = φ(W_x x_u + W_h h_{u−1} + b), applied from the right, from tokens [B, U, d].
at::Tensor states(const at::Tensor& tokens, const at::Tensor& input_weight, const at::Tensor& state_weight,
                  const at::Tensor& bias, bool linear) {
  at::Tensor state = at::zeros({tokens.size(0), state_weight.size(0)}, tokens.options());
  std::vector<at::Tensor> all;
  for (std::int64_t place = 0; place < tokens.size(1); ++place) {
    state = at::matmul(tokens.select(1, place), input_weight) + at::matmul(state, state_weight) + bias;
    if (!linear) state = at::tanh(state);
    all.push_back(state);
  }
  return at::stack(all, 1);
}

// ∂outputs_u/∂tokens_k [U, d, B, U, d] of passages that do not depend on each other: outputs [B, U, d], made of tokens
// [B, U, d].
at::Tensor jacobian_of(const at::Tensor& outputs, const at::Tensor& tokens) {
  const at::Tensor sums = outputs.sum(0).reshape(-1);  // of the passages, each of which has a gradient of its own
  std::vector<at::Tensor> rows;
  for (std::int64_t row = 0; row < sums.size(0); ++row)
    rows.push_back(torch::autograd::grad({sums.select(0, row)}, {tokens}, {}, /*retain_graph=*/true).front());
  return at::stack(rows).view({outputs.size(1), outputs.size(2), tokens.size(0), tokens.size(1), tokens.size(2)});
}

// The Frobenius norm of each block as a mean over passages, [U, U].
at::Tensor block_norms(const at::Tensor& jacobian) { return jacobian.square().sum({1, 4}).sqrt().mean(1); }

at::Tensor power(const at::Tensor& matrix, std::int64_t exponent) {
  at::Tensor result = at::eye(matrix.size(0), matrix.options()), square = matrix;
  for (; exponent > 0; exponent /= 2, square = at::matmul(square, square))
    if (exponent % 2 == 1) result = at::matmul(result, square);
  return result;
}

// The largest difference of the blocks of a linear network from W_h^{u−k} W_x, and from 0 above the diagonal.
double difference_from_powers(const at::Tensor& jacobian, const at::Tensor& input_weight,
                              const at::Tensor& state_weight) {
  double largest = 0;
  for (std::int64_t u = 0; u < jacobian.size(0); ++u)
    for (std::int64_t k = 0; k < jacobian.size(2); ++k) {
      const at::Tensor block = jacobian.select(0, u).select(1, k);  // [d of h, d of x]
      // Applied from the right: h = x W_x W_h^{u−k}.
      const at::Tensor expected =
          k > u ? at::zeros_like(block) : at::matmul(input_weight, power(state_weight, u - k)).t();
      largest = std::max(largest, (block - expected).abs().max().item<double>());
    }
  return largest;
}

struct Triangle {
  double above = 0, diagonal = 0, smallest_below = 0;  // largest above the diagonal; mean on it; smallest below it
  double share_below = 0;                              // of the sum of squares
};

Triangle triangle_of(const at::Tensor& norms) {
  Triangle triangle{.smallest_below = 1e300};
  double below = 0, all = 0;
  const std::int64_t places = norms.size(0);
  const double* const norm = norms.const_data_ptr<double>();
  for (std::int64_t u = 0; u < places; ++u)
    for (std::int64_t k = 0; k < places; ++k) {
      const double value = norm[u * places + k];
      all += value * value;
      if (k > u) triangle.above = std::max(triangle.above, value);
      if (k == u) triangle.diagonal += value / static_cast<double>(places);
      if (k < u) triangle.smallest_below = std::min(triangle.smallest_below, value), below += value * value;
    }
  triangle.share_below = below / all;
  return triangle;
}

pages::MatrixMap map_of(const std::string& title, const at::Tensor& norms, const std::string& caption) {
  const at::Tensor flat = norms.contiguous();
  return {.title = title,
          .row_title = "position u of the state",
          .column_title = "position k of the token",
          .rows = norms.size(0),
          .columns = norms.size(1),
          .values = {flat.const_data_ptr<double>(), flat.const_data_ptr<double>() + flat.numel()},
          .caption = caption};
}

// The mean norm at each distance u − k.
pages::ChartSeries by_distance(const std::string& name, const at::Tensor& norms) {
  pages::ChartSeries series{.name = name, .x = {}, .y = {}};
  const std::int64_t places = norms.size(0);
  const double* const norm = norms.const_data_ptr<double>();
  for (std::int64_t distance = 0; distance < places; ++distance) {
    double sum = 0;
    for (std::int64_t u = distance; u < places; ++u) sum += norm[u * places + u - distance];
    series.x.push_back(static_cast<double>(distance));
    series.y.push_back(sum / static_cast<double>(places - distance));
  }
  return series;
}

struct Network {
  at::Tensor embedding, input_weight, state_weight, bias, output_weight;

  at::Tensor loss(const at::Tensor& bytes) const {  // [B, U + 1]
    const std::int64_t places = bytes.size(1) - 1;
    const at::Tensor inputs =
        embedding.index_select(0, bytes.slice(1, 0, places).reshape(-1)).view({bytes.size(0), places, -1});
    const at::Tensor logits = at::matmul(states(inputs, input_weight, state_weight, bias, false), output_weight);
    return -at::log_softmax(logits.reshape({-1, logits.size(-1)}), -1)
                .gather(1, bytes.slice(1, 1, places + 1).reshape({-1, 1}))
                .mean();
  }
};

constexpr std::int64_t different_bytes = 256;

Network draw_network(std::int64_t width, Draws& draws) {
  const double deviation = 1 / std::sqrt(static_cast<double>(width));
  return {normal_tensor({different_bytes, width}, 1, draws), normal_tensor({width, width}, deviation, draws),
          0.9 * orthonormal_columns(width, draws), at::zeros({width}, at::kDouble),
          normal_tensor({width, different_bytes}, deviation, draws)};
}

at::Tensor draw_passages(const std::string& text, std::int64_t count, std::int64_t length, Draws& draws) {
  at::Tensor passages = at::empty({count, length}, at::kLong);
  for (std::int64_t row = 0; row < count; ++row) {
    const std::int64_t begin = draws.below(std::ssize(text) - length);
    for (std::int64_t place = 0; place < length; ++place)
      passages.mutable_data_ptr<std::int64_t>()[row * length + place] =
          static_cast<unsigned char>(text[static_cast<std::size_t>(begin + place)]);
  }
  return passages;
}

struct Blocks {
  at::Tensor state, key;  // [U, U], means over passages of the norms of ∂h_u/∂x_k and of ∂(W_x x_u)/∂x_k
};

Blocks trained_blocks(const Network& network, const at::Tensor& passages) {
  const at::Tensor tokens = network.embedding.index_select(0, passages.reshape(-1))
                                .view({passages.size(0), passages.size(1), -1})
                                .detach()
                                .requires_grad_(true);
  return {
      block_norms(jacobian_of(states(tokens, network.input_weight, network.state_weight, network.bias, false), tokens)),
      block_norms(jacobian_of(at::matmul(tokens, network.input_weight), tokens))};
}

// The mean |cosine| between the keys of different characters of a text.
double likeness_of_keys(const Network& network, const at::Tensor& passages) {
  const at::Tensor keys = at::matmul(network.embedding.index_select(0, passages.reshape(-1)), network.input_weight);
  const at::Tensor directions = keys / keys.norm(2, -1, true);
  const at::Tensor cosines = at::matmul(directions, directions.t()).abs();
  const at::Tensor bytes = passages.reshape(-1);
  const at::Tensor different = bytes.unsqueeze(0).ne(bytes.unsqueeze(1)).to(at::kDouble);
  return ((cosines * different).sum() / different.sum()).item<double>();
}

// Of the draws and the training of one seed.
struct Measured {
  double key_off = 0, key_on = 0;  // largest |∂K_u/∂x_k|, k ≠ u; largest difference of ∂K_u/∂x_u from W_K
  double powers = 0;               // linear network: largest difference of ∂h_u/∂x_k from W_h^{u−k} W_x
  double interference = 0;         // of the past over the target in s·h_u of its last state
  double likeness = 0;             // of the trained network's keys
  at::Tensor linear;               // [U, U], norms of the linear network's blocks
  Blocks before, after;            // training
  TrainedCurve curve;
};

Measured measure(const LabParameters& given, std::uint64_t seed, const text::Corpus& corpus) {
  const std::int64_t width = given.whole("width"), places = given.whole("tokens");
  Draws draws(seed, 0);
  Measured measured;

  const double deviation = 1 / std::sqrt(static_cast<double>(width));
  const at::Tensor tokens = normal_tensor({1, places, width}, 1, draws).requires_grad_(true);
  const at::Tensor key_weight = normal_tensor({width, width}, deviation, draws);
  const at::Tensor keys = jacobian_of(at::matmul(tokens, key_weight), tokens).select(2, 0);  // [U, d, U, d]
  const at::Tensor input_weight = normal_tensor({width, width}, deviation, draws);
  const at::Tensor state_weight = 0.9 * orthonormal_columns(width, draws);
  const at::Tensor linear_states = states(tokens, input_weight, state_weight, at::zeros({width}, at::kDouble), true);
  const at::Tensor linear = jacobian_of(linear_states, tokens);
  for (std::int64_t u = 0; u < places; ++u)
    for (std::int64_t k = 0; k < places; ++k) {
      const at::Tensor block = keys.select(0, u).select(1, k);
      if (k == u)
        measured.key_on = std::max(measured.key_on, (block - key_weight.t()).abs().max().item<double>());
      else
        measured.key_off = std::max(measured.key_off, block.abs().max().item<double>());
    }
  // e_tu of the last state, for random s: what the past adds to what the token itself gives.
  const at::Tensor queries = normal_tensor({1000, width}, 1, draws);
  const at::Tensor target = at::matmul(tokens.select(1, places - 1), input_weight).detach();
  const at::Tensor past = linear_states.select(1, places - 1).detach() - target;
  measured.interference =
      (at::matmul(queries, past.t()).norm() / at::matmul(queries, target.t()).norm()).item<double>();

  measured.linear = block_norms(linear);
  measured.powers = difference_from_powers(linear.select(2, 0), input_weight, state_weight);

  Network network = draw_network(width, draws);
  const at::Tensor passages = draw_passages(corpus.text, given.whole("texts"), places, draws);
  measured.before = trained_blocks(network, passages);
  std::vector<std::pair<std::string, at::Tensor>> learned{{"embedding", network.embedding},
                                                          {"input_weight", network.input_weight},
                                                          {"state_weight", network.state_weight},
                                                          {"bias", network.bias},
                                                          {"output_weight", network.output_weight}};
  for (auto& [name, value] : learned) value.requires_grad_(true);
  measured.curve = train_lab(learned, given.whole("steps"), given.number("learning_rate"), [&](std::int64_t) {
    return network.loss(draw_passages(corpus.text, given.whole("batch"), places + 1, draws));
  });
  for (at::Tensor* tensor :
       {&network.embedding, &network.input_weight, &network.state_weight, &network.bias, &network.output_weight})
    *tensor = tensor->detach();
  measured.after = trained_blocks(network, passages);
  measured.likeness = likeness_of_keys(network, passages);
  return measured;
}

LabResult run(const LabParameters& given, const LabHost& host) {
  using enum Finding::Relation;
  using enum Finding::Whose;
  const text::Corpus corpus = text::load_python_standard_library(given.whole("text_bytes"));
  std::vector<Measured> runs(static_cast<std::size_t>(given.whole("seeds")));
  side_by_side(std::ssize(runs), host, [&](std::int64_t index) {
    runs[static_cast<std::size_t>(index)] =
        measure(given, static_cast<std::uint64_t>(given.whole("seed") + index), corpus);
  });

  const auto of_runs = [&](const auto& number) {
    std::vector<double> values;
    for (const Measured& each : runs) values.push_back(std::invoke(number, each));
    return values;
  };
  // What holds for each entry holds for the worst of all runs.
  const auto largest = [&](const auto& number) { return std::ranges::max(of_runs(number)); };
  const double above_diagonal = largest([](const Measured& each) { return triangle_of(each.after.state).above; });
  const double smallest_below =
      std::ranges::min(of_runs([](const Measured& each) { return triangle_of(each.after.state).smallest_below; }));
  const double keys_off_diagonal = largest([](const Measured& each) {
    const Triangle key = triangle_of(each.after.key);
    return std::max(key.above, key.share_below);
  });
  const double share_below =
      mean_of(of_runs([](const Measured& each) { return triangle_of(each.after.state).share_below; })).value;
  const Measured& first = runs.front();
  return {
      .answer =
          fmt::format("Every state of a trained network depends on every token before it: {:.0f} % of the squares of "
                      "∂h_u/∂x_k lie off the diagonal. K_u = W_K x_u depends on x_u alone, exactly.",
                      100 * share_below),
      .findings =
          {{"Largest entry of ∂K_u/∂x_k, k ≠ u", follows, near, 0, 0, largest(&Measured::key_off)},
           {"Largest difference of ∂K_u/∂x_u from W_K", follows, near, 0, 0, largest(&Measured::key_on)},
           {"Linear network: largest difference of ∂h_u/∂x_k from W_h^{u−k} W_x", follows, near, 0, 1e-10,
            largest(&Measured::powers)},
           of_draws(
               {"Linear network: interference of the past over the target in s·h_u, last position", direction, above},
               of_runs(&Measured::interference)),
           {"Trained network: smallest ‖∂h_u/∂x_k‖ of all k < u", direction, above, 0, 0, smallest_below},
           {"Trained network: largest ‖∂h_u/∂x_k‖ of all k > u", follows, near, 0, 0, above_diagonal},
           {"Trained weights without recurrence: largest ‖∂K_u/∂x_k‖ of all k ≠ u", follows, near, 0, 0,
            keys_off_diagonal},
           of_draws({"Mean |cosine| of the keys of different characters", follows, near, 0, 0.01, 0,
                     "The lecture says that x_k is then orthogonal to x_u. Only the Jacobian is zero: a key does not "
                     "depend on other tokens, but keys of different tokens are no more orthogonal than their vectors "
                     "are."},
                    of_runs(&Measured::likeness))},
      .charts = {{.title = "How much a state depends on a token, by its distance",
                  .x = {.title = "u − k, positions back"},
                  .y = {.title = "‖∂h_u/∂x_k‖, mean", .logarithmic = true},
                  .series = {by_distance("trained network", first.after.state),
                             by_distance("the same before training", first.before.state),
                             by_distance("linear, W_h 0.9 times a rotation", first.linear)},
                  .caption = fmt::format(
                      "K_u = W_K x_u would be one point, at 0. Trained to tell the next character of {}: loss {:.2f} "
                      "nats, {:.2f} after the first steps. Curve and maps are those of the first run.",
                      corpus.name, first.curve.loss.empty() ? 0 : first.curve.loss.back(),
                      first.curve.loss.empty() ? 0 : first.curve.loss.front())}},
      .maps = {map_of("Trained network: ‖∂h_u/∂x_k‖", first.after.state,
                      "Lower triangle: every token before, fading with distance."),
               map_of("Linear network: ‖W_h^{u−k} W_x‖", first.linear, "The same shape, by the lecture's formula."),
               map_of("K_u = W_K x_u: ‖∂K_u/∂x_k‖", first.after.key, "The diagonal alone; all else is exactly 0.")},
      .assumptions = {
          {"A network with tanh, as the lecture's.",
           "One layer, trained for a moment on characters. Gates of an LSTM make the decay slower or faster "
           "and leave the triangle as it is."},
          {"The linear network is not trained.",
           "Its W_h is 0.9 times a rotation, so that powers neither "
           "vanish nor grow within the positions shown."},
          {"K is W_K x of the token's own vector.",
           "In a transformer's second layer x_u is an output of attention, which depends on other tokens "
           "again: the diagonal is that of the first layer."},
          {"Characters are bytes of " + corpus.name + ".",
           "Of its first " + number_for_readers(static_cast<double>(corpus.bytes())) + " bytes, with the hash " +
               corpus.sha256.substr(0, 16) + "…"}}};
}

}  // namespace
}  // namespace cogwheel::labs::jacobian

namespace cogwheel::labs {
LabEntry jacobian_lab() {
  return {"jacobian",
          "What a state has of other tokens",
          "Does a state stand for its own token, or for all before it?",
          jacobian::parameters(),
          jacobian::run,
          any_parameters,
          {"steps"}};
}
}  // namespace cogwheel::labs
