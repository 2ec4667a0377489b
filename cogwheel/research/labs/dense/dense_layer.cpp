// The dense layer of the post on dense transformers: 50 tokens, one head of width 256, softmax over all of them, with
// biases, weights that are not scaled down, and two pairs of tensors that share a random key.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <cmath>

#include "cogwheel/ops/pairwise/attention.h"
#include "cogwheel/research/labs/drawn_tensor.h"
#include "cogwheel/research/labs/lab.h"
#include "cogwheel/research/labs/one_thread.h"

namespace cogwheel::labs::dense_layer {
namespace {

LabParameters parameters() {
  return {{{"tokens", {50}, {3, 1024}, "N"},
           {"width", {128}, {2, 1024}, "of a token; an even number"},
           {"hidden", {256}, {8, 1024}, "of queries, keys and values, one head"},
           {"shared_keys", {1}, {0, 1}, "1: W_O has the numbers of W_v, and b_o those of b_v, as in the post's code"},
           {"seed", {100}, {0, 1e15}, "of the random numbers, split in seven"}}};
}

struct Layer {
  at::Tensor query, key, value, output, query_bias, key_bias, value_bias, output_bias;
};

// Seven streams, of which one makes two matrices and one two biases, as the post's keys do.
Layer draw_layer(const LabParameters& given, bool shared) {
  const std::int64_t width = given.whole("width"), hidden = given.whole("hidden");
  const auto seed = static_cast<std::uint64_t>(given.whole("seed"));
  const auto drawn = [&](std::uint64_t stream, at::IntArrayRef sizes) {
    Draws draws(seed, stream);
    return normal_tensor(sizes, 1, draws);
  };
  return {drawn(2, {width, hidden}), drawn(3, {width, hidden}),
          drawn(4, {width, hidden}), drawn(shared ? 4 : 8, {hidden, width}),
          drawn(5, {hidden}),        drawn(6, {hidden}),
          drawn(7, {hidden}),        drawn(shared ? 7 : 9, {width})};
}

struct Pass {
  at::Tensor scores, weights, output;  // [N, N], [N, N], [N, width]
  at::Tensor fused;                    // the output by the operator
};

// `scale_of_weights` multiplies the matrices of queries and keys.
Pass pass_of(const Layer& layer, const at::Tensor& x, double scale_of_weights = 1) {
  const at::Tensor query = at::matmul(x, layer.query) * scale_of_weights + layer.query_bias,
                   key = at::matmul(x, layer.key) * scale_of_weights + layer.key_bias,
                   value = at::matmul(x, layer.value) + layer.value_bias;
  Pass pass;
  pass.scores = at::matmul(query, key.t()) / std::sqrt(static_cast<double>(query.size(1)));
  pass.weights = at::softmax(pass.scores, -1);
  pass.output = at::matmul(at::matmul(pass.weights, value), layer.output) + layer.output_bias;
  const auto heads = [](const at::Tensor& matrix) { return matrix.unsqueeze(0).unsqueeze(0); };
  const at::Tensor attended = ops::attention(heads(query), heads(key), heads(value))[0][0];
  pass.fused = at::matmul(attended, layer.output) + layer.output_bias;
  return pass;
}

double mean_largest(const at::Tensor& weights) { return weights.amax(-1).mean().item<double>(); }

// The correlation of the numbers of two tensors in the order in which they lie.
double correlation_in_order(const at::Tensor& one, const at::Tensor& other) {
  const at::Tensor left = one.reshape(-1) - one.mean(), right = other.reshape(-1) - other.mean();
  return ((left * right).sum() / (left.norm() * right.norm())).item<double>();
}

LabResult run(const LabParameters& given, const LabHost& /*host*/) {
  using enum Finding::Relation;
  using enum Finding::Whose;
  const OneThread one_thread;
  const std::int64_t tokens = given.whole("tokens"), width = given.whole("width"), hidden = given.whole("hidden");
  const bool shared = given.whole("shared_keys") == 1;
  const Layer layer = draw_layer(given, shared), apart = draw_layer(given, false);
  Draws draws(static_cast<std::uint64_t>(given.whole("seed")), 1);
  const at::Tensor x = normal_tensor({tokens, width}, 1, draws);
  const Pass pass = pass_of(layer, x), scaled = pass_of(layer, x, 1 / std::sqrt(static_cast<double>(width)));

  at::Tensor order = at::empty({tokens}, at::kLong);
  for (std::int64_t i = 0; i < tokens; ++i) order.mutable_data_ptr<std::int64_t>()[i] = i;
  for (std::int64_t i = tokens - 1; i > 0; --i)
    std::swap(order.mutable_data_ptr<std::int64_t>()[i], order.mutable_data_ptr<std::int64_t>()[draws.below(i + 1)]);
  const double scale_of_output = pass.output.abs().max().item<double>();
  const double moved = (pass_of(layer, x.index_select(0, order)).output - pass.output.index_select(0, order))
                           .abs()
                           .max()
                           .item<double>() /
                       scale_of_output;
  const double later = pass.weights.triu(1).sum().item<double>() / static_cast<double>(tokens);
  double numbers = 0;
  for (const at::Tensor& each : {layer.query, layer.key, layer.value, layer.output, layer.query_bias, layer.key_bias,
                                 layer.value_bias, layer.output_bias})
    numbers += static_cast<double>(each.numel());
  const double spread = pass.scores.std().item<double>();
  const double unscaled_largest = mean_largest(pass.weights);
  const auto product_length = [](const Layer& each) {
    return at::matmul(each.value, each.output).norm().item<double>();
  };

  LabResult result{
      .answer =
          fmt::format("The layer has the post's shapes, its rows sum to 1, and it sees before and after. Its weights "
                      "are not scaled down: scores scatter by {:.0f}, and the largest weight of a row is {:.3f} on "
                      "average; with W/√{} it would be {:.3f}.",
                      spread, unscaled_largest, width, mean_largest(scaled.weights)),
      .findings =
          {{"Numbers of the output, N × width", follows, near, static_cast<double>(tokens * width), 0,
            static_cast<double>(pass.output.numel())},
           {"Numbers of all weights and biases", follows, near,
            static_cast<double>(4 * width * hidden + 3 * hidden + width), 0, numbers},
           {"Largest difference of a row's sum from 1", follows, near, 0, 1e-12,
            (pass.weights.sum(-1) - 1).abs().max().item<double>()},
           {"Share of the weight that lies on later tokens (the post: before and after)", direction, above, 0, 0,
            later},
           {"Permuted tokens: largest difference from the permuted output, over its largest number", follows, near, 0,
            1e-10, moved},
           {"Largest difference of the operator's output from the formula's, over its largest number", ours, near, 0,
            1e-10, (pass.fused - pass.output).abs().max().item<double>() / scale_of_output},
           {"Standard deviation of the scores over width + 1", ours, near, 1, 0.2,
            spread / static_cast<double>(width + 1),
            "Entries of queries and keys have the variance width + 1, so that q·k/√hidden scatters by width + 1, not "
            "by 1."},
           {"Largest weight of a row, on average, as the post draws them", ours, above, 0.9, 0, unscaled_largest,
            "A trap: with N(0, 1) for the weights the softmax is almost a choice of one key."},
           {"The same with W_q and W_k over √width", ours, at_most, 0.5, 0, mean_largest(scaled.weights)},
           {"Correlation of W_v and W_O, in the order of their numbers", ours, near, shared ? 1.0 : 0.0,
            shared ? 1e-12 : 5 / std::sqrt(static_cast<double>(width * hidden)),
            correlation_in_order(layer.value, layer.output),
            "The post draws both with key4, and b_v and b_o with key7: they are the same numbers in another shape, not "
            "independent."},
           {"‖W_v W_O‖ with the shared key, over that with keys of their own", nobody, shown, 0, 0,
            product_length(layer) / product_length(apart),
            "Numbers that are shared but meet in other places change little of the layer."}},
      .assumptions = {
          {"Random numbers are our own.",
           "The post's are those of JAX for seed 100, split in seven; it prints none of them."},
          {"The equation is that of the code.", "The post has it as a picture, which is lost."},
          {"One layer, not trained.", "What is shown is what the demonstration computes, before learning."}}};
  pages::ChartSeries series{.name = "as the post draws them", .x = {}, .y = {}, .points = false},
      tamed{.name = "W/√width", .x = {}, .y = {}, .points = false};
  const at::Tensor sorted = std::get<0>(pass.weights.sort(-1, true)).mean(0),
                   sorted_scaled = std::get<0>(scaled.weights.sort(-1, true)).mean(0);
  for (std::int64_t rank = 0; rank < tokens; ++rank) {
    series.x.push_back(static_cast<double>(rank + 1)), tamed.x.push_back(static_cast<double>(rank + 1));
    series.y.push_back(sorted[rank].item<double>()), tamed.y.push_back(sorted_scaled[rank].item<double>());
  }
  result.charts = {{.title = "Weights of a row, the largest first",
                    .x = {.title = "rank of the weight"},
                    .y = {.title = "weight, mean of all rows", .logarithmic = true, .min = 1e-6, .max = 1},
                    .series = {series, tamed}}};
  return result;
}

}  // namespace
}  // namespace cogwheel::labs::dense_layer

namespace cogwheel::labs {
LabEntry dense_layer_lab() {
  return {"dense-layer", "The dense layer of the post",
          "Does the layer have the post's shapes, sum its rows to 1, and see tokens before and after alike?",
          dense_layer::parameters(), dense_layer::run};
}
}  // namespace cogwheel::labs
