// The layer of the post on negative weights, as its code means it and as its code says it: one head of Cog attention
// over earlier tokens, without a scale, whose projections are written as an einsum that takes the diagonal of each
// matrix.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>

#include "cogwheel/ops/pairwise/attention.h"
#include "cogwheel/research/labs/drawn_tensor.h"
#include "cogwheel/research/labs/lab.h"
#include "cogwheel/research/labs/one_thread.h"

namespace cogwheel::labs::cog_layer {
namespace {

LabParameters parameters() {
  using enum LabParameter::Kind;
  return {{{"batch", {2}, {1, 64}, "b, texts"},
           {"tokens", {4}, {2, 256}, "L, of a text"},
           {"width", {8}, {8, 256}, "d, of tokens, queries, keys and values"},
           {"bias_deviation", {0}, {0, 100}, "standard deviation of the biases; the post's are 0", real},
           {"seed", {0}, {0, 1e15}, "of the random numbers"}}};
}

struct Layer {
  at::Tensor query, key, value, output;                      // [d, d], applied from the right
  at::Tensor query_bias, key_bias, value_bias, output_bias;  // [d]
  std::vector<at::Tensor> matrices() const { return {query, key, value, output}; }
};

// x W as the post has it: a repeated index takes the diagonal of W.
at::Tensor by_diagonal(const at::Tensor& x, const at::Tensor& weight) { return at::einsum("bld,dd->bld", {x, weight}); }
at::Tensor by_product(const at::Tensor& x, const at::Tensor& weight) { return at::einsum("bld,de->ble", {x, weight}); }

struct Projected {
  at::Tensor query, key, value;  // [b, L, d]
};

template <typename Product>
Projected project(const Layer& layer, const at::Tensor& x, const Product& product) {
  return {product(x, layer.query) + layer.query_bias, product(x, layer.key) + layer.key_bias,
          product(x, layer.value) + layer.value_bias};
}

at::Tensor scores_of(const Projected& projected) { return at::matmul(projected.query, projected.key.transpose(1, 2)); }

// sign(p) softmax|p| over the tokens up to each, [b, L, L].
at::Tensor weights_of(const at::Tensor& scores) {
  const at::Tensor later = at::ones({scores.size(-2), scores.size(-1)}, at::kBool).triu(1);
  return scores.sign() * at::softmax(scores.abs().masked_fill(later, -INFINITY), -1);
}

template <typename Product>
at::Tensor output_of(const Layer& layer, const at::Tensor& x, const Product& product) {
  const Projected projected = project(layer, x, product);
  return product(at::matmul(weights_of(scores_of(projected)), projected.value), layer.output) + layer.output_bias;
}

double largest(const at::Tensor& tensor) { return tensor.abs().max().item<double>(); }

pages::TextTable matrix_table(const std::string& title, const at::Tensor& matrix, bool causal) {
  pages::TextTable table{title, {"token"}, {}};
  for (std::int64_t column = 0; column < matrix.size(1); ++column) table.columns.push_back(std::to_string(column + 1));
  for (std::int64_t row = 0; row < matrix.size(0); ++row) {
    table.rows.push_back({std::to_string(row + 1)});
    for (std::int64_t column = 0; column < matrix.size(1); ++column)
      table.rows.back().push_back(causal && column > row ? ""
                                                         : fmt::format("{:.6f}", matrix[row][column].item<double>()));
  }
  return table;
}

LabResult run(const LabParameters& given, const LabHost& /*host*/) {
  using enum Finding::Relation;
  using enum Finding::Whose;
  const OneThread one_thread;
  Draws draws(static_cast<std::uint64_t>(given.whole("seed")), 0);
  const std::int64_t batch = given.whole("batch"), tokens = given.whole("tokens"), width = given.whole("width");
  const double deviation = 1 / std::sqrt(static_cast<double>(width)), of_bias = given.number("bias_deviation");
  const auto matrix = [&] { return normal_tensor({width, width}, deviation, draws); };
  const auto bias = [&] { return normal_tensor({width}, of_bias, draws); };
  Layer layer;
  for (at::Tensor* each : {&layer.query, &layer.key, &layer.value, &layer.output}) *each = matrix();
  for (at::Tensor* each : {&layer.query_bias, &layer.key_bias, &layer.value_bias, &layer.output_bias}) *each = bias();
  const at::Tensor x = normal_tensor({batch, tokens, width}, 1, draws);

  const Projected projected = project(layer, x, by_product);
  const at::Tensor scores = scores_of(projected), weights = weights_of(scores);
  const at::Tensor output = output_of(layer, x, by_product);
  at::Tensor other = x.clone();
  other.select(1, tokens - 1).fill_(1);
  const at::Tensor change = output_of(layer, other, by_product) - output;
  const at::Tensor visible = at::ones({tokens, tokens}, at::kBool).tril();
  const at::Tensor seen = weights.masked_select(visible);
  // The equation as printed divides by the sum of the signed exponentials.
  const at::Tensor printed_sum = weights.sum(-1);

  ops::AttentionOptions options;
  options.causal = true, options.scale = 1.0;
  const at::Tensor fused = ops::attention(projected.query.unsqueeze(1), projected.key.unsqueeze(1),
                                          projected.value.unsqueeze(1), "cog", options)
                               .squeeze(1);

  // What the einsum of the post reads of each matrix: the entries that have a gradient.
  std::vector<at::Tensor> learned;
  Layer traced = layer;
  for (at::Tensor* each : {&traced.query, &traced.key, &traced.value, &traced.output})
    *each = each->detach().requires_grad_(true), learned.push_back(*each);
  double most_read = 0;
  for (const at::Tensor& gradient : torch::autograd::grad({output_of(traced, x, by_diagonal).square().sum()}, learned))
    most_read = std::max(most_read, gradient.ne(0).sum().item<double>());
  const at::Tensor by_einsum = output_of(layer, x, by_diagonal);
  const double apart = ((by_einsum - output).norm() / output.norm()).item<double>();
  const auto count = static_cast<double>(batch * tokens * width);
  const double negative = seen.lt(0).to(at::kDouble).mean().item<double>();

  return {
      .answer =
          fmt::format("The layer does what the post says of it: {:.0f} % of the weights are negative, their "
                      "magnitudes sum to 1, and no token sees a later one. As its code is written it reads only the "
                      "diagonals of its matrices, and gives something else.",
                      100 * negative),
      .findings =
          {{"Numbers of the output, of shape (b, L, d)", follows, near, count, 0, static_cast<double>(output.numel())},
           {"Largest change of earlier tokens' outputs when the last token is another", follows, near, 0, 0,
            largest(change.narrow(1, 0, tokens - 1))},
           {"The same of the last token's output", direction, above, 0, 0, largest(change.select(1, tokens - 1))},
           {"Share of the weights that are negative", direction, above, 0, 0, negative},
           {"Largest difference of Σ|a| from 1", follows, near, 0, 1e-12, largest(weights.abs().sum(-1) - 1)},
           {"Largest difference of the operator's output from the formula's", ours, near, 0, 1e-10,
            largest(fused - at::matmul(weights, projected.value))},
           {"Smallest |Σ SignExp| over Σ |SignExp|, by which the equation as printed divides", nobody, shown, 0, 0,
            printed_sum.abs().min().item<double>(),
            "The post's equation sums signed numbers in the denominator; its code, and the paper, their magnitudes. A "
            "signed sum may be 0."},
           {"Largest difference of einsum(\"bld,dd->bld\", x, W) from x times the diagonal of W", ours, near, 0, 0,
            largest(by_diagonal(x, layer.query) - x * layer.query.diagonal())},
           {"Numbers of a matrix that the post's layer reads (of a product: d²)", follows, near,
            static_cast<double>(width * width), 0, most_read,
            "A trap: the index d appears twice, and einsum then takes the diagonal. The post's text says W x; "
            "\"bld,de->ble\" is that."},
           {"Length of the difference of the two outputs over that of the right one", nobody, shown, 0, 0, apart}},
      .tables = {matrix_table("Scores p of the first text", scores[0], false),
                 matrix_table("Weights a of the first text", weights[0], true)},
      .assumptions = {
          {"Random numbers are our own.",
           "The post's are those of JAX for its seed, and it prints none of its output but the shape."},
          {"Weights are as the post draws them.",
           "Normal, of variance 1/d; biases are 0, which bias_deviation changes. Tokens are normal numbers."},
          {"Scores have no scale.", "One head, a mask that hides later tokens, as in the post."}}};
}

}  // namespace
}  // namespace cogwheel::labs::cog_layer

namespace cogwheel::labs {
LabEntry cog_layer_lab() {
  return {"cog-layer", "The layer of the post, end to end",
          "Does the demonstration give what its text says: negative weights, rows whose magnitudes sum to 1, no look "
          "ahead?",
          cog_layer::parameters(), cog_layer::run};
}
}  // namespace cogwheel::labs
