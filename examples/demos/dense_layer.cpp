// The dense layer of the post "Vanilla/Dense Transformers": 50 tokens of width 128, one head of width 256, softmax over
// all of them, before and after. Its weights are not scaled down, which makes the softmax almost a choice of one key.
#include "one_head.h"

constexpr int tokens = 50, width = 128, hidden = 256;
const Matrix w_q = waves(width, hidden, 1), w_k = waves(width, hidden, 2), w_v = waves(width, hidden, 3),
             w_o = waves(hidden, width, 4);

Matrix layer(const Matrix& x) {
  return product(attend("softmax", product(x, w_q), product(x, w_k), product(x, w_v), false, 1 / std::sqrt(hidden)),
                 w_o);
}

double mean_of_largest(const Matrix& a) {
  double sum = 0;
  for (int i = 0; i < a.rows; ++i) {
    double largest = 0;
    for (int j = 0; j < a.columns; ++j) largest = std::fmax(largest, a(i, j));
    sum += largest;
  }
  return sum / a.rows;
}

int main() {
  const Matrix x = waves(tokens, width, 0), y = layer(x), query = product(x, w_q), key = product(x, w_k);
  const Matrix a = weights("softmax", query, key, false, 1 / std::sqrt(hidden));
  double min_sum = 2, max_sum = 0, largest_output = 0;
  for (int i = 0; i < tokens; ++i) {
    double sum = 0;
    for (int j = 0; j < tokens; ++j) sum += a(i, j);
    min_sum = std::fmin(min_sum, sum), max_sum = std::fmax(max_sum, sum);
  }
  std::printf("output: %d x %d\n", y.rows, y.columns);
  std::printf("rows of weights sum to %.4f at least and %.4f at most\n", min_sum, max_sum);
  std::printf("the largest weight of a row, on average: %.4f\n", mean_of_largest(a));
  const Matrix fitting = weights("softmax", query, key, false, 1 / (width * std::sqrt(hidden)));
  std::printf("the same with W scaled by 1/√%d: %.4f\n", width, mean_of_largest(fitting));

  // The layer does not know positions: permuting the tokens permutes the rows.
  Matrix permuted = x, expected = y;
  for (int i = 0; i < tokens; ++i) {
    for (int j = 0; j < width; ++j) permuted(i, j) = x(i * 7 % tokens, j), expected(i, j) = y(i * 7 % tokens, j);
    for (int j = 0; j < width; ++j) largest_output = std::fmax(largest_output, std::abs(y(i, j)));
  }
  std::printf("permuted tokens permute the output, to within %.4f\n",
              largest_difference(layer(permuted), expected, tokens) / largest_output);
}
