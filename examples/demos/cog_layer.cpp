// One causal layer of Cog attention, one head, no scale, as the post "Negative Weights Transformers" has it:
// y = (A V) W_o with A = sign(p) softmax|p| over the tokens up to each, p = QKᵀ. Then four things to see in it.
#include "one_head.h"

constexpr int tokens = 4, width = 8;
const Matrix w_q = waves(width, width, 1, 1 / std::sqrt(8.0)), w_k = waves(width, width, 2, 1 / std::sqrt(8.0)),
             w_v = waves(width, width, 3, 1 / std::sqrt(8.0)), w_o = waves(width, width, 4, 1 / std::sqrt(8.0));

Matrix layer(const Matrix& x) {
  return product(attend("cog", product(x, w_q), product(x, w_k), product(x, w_v), true, 1), w_o);
}

int main() {
  const Matrix x = waves(tokens, width, 0), y = layer(x);
  std::printf("output: %d x %d, first row begins %.4f %.4f %.4f\n", y.rows, y.columns, y(0, 0), y(0, 1), y(0, 2));

  // 1. Causal: changing the last token changes only the last row.
  Matrix other = x;
  for (int j = 0; j < width; ++j) other(tokens - 1, j) = 1;
  const Matrix changed = layer(other);
  std::printf("another last token changes earlier rows by %.4f, the last by %.4f\n",
              largest_difference(changed, y, tokens - 1), largest_difference(changed, y, tokens));

  // 2. Some weights are negative, yet their magnitudes sum to 1.
  const Matrix query = product(x, w_q), key = product(x, w_k), a = weights("cog", query, key, true, 1);
  int negative = 0;
  double min_sum = 2, max_sum = 0;
  for (int i = 0; i < tokens; ++i) {
    double sum = 0;
    for (int j = 0; j < tokens; ++j) sum += std::abs(a(i, j)), negative += a(i, j) < 0;
    min_sum = std::fmin(min_sum, sum), max_sum = std::fmax(max_sum, sum);
  }
  std::printf("%d of 10 weights are negative; sums of |a|: %.4f to %.4f\n", negative, min_sum, max_sum);

  // 3. The kernel agrees with the formula.
  Matrix formula{tokens, tokens};
  for (int i = 0; i < tokens; ++i) {
    double total = 0;
    for (int j = 0; j <= i; ++j) {
      double p = 0;
      for (int d = 0; d < width; ++d) p += query(i, d) * key(j, d);
      formula(i, j) = std::copysign(std::exp(std::abs(p)), p);
      total += std::abs(formula(i, j));
    }
    for (int j = 0; j <= i; ++j) formula(i, j) /= total;
  }
  std::printf("largest difference from sign(p) softmax|p|: %.4f\n", largest_difference(a, formula, tokens));

  // 4. A trap: the post's einsum("bld,dd->bld", x, W) repeats an index, which takes W's diagonal. The product is x W.
  Matrix trap = x;
  for (int i = 0; i < tokens; ++i)
    for (int j = 0; j < width; ++j) trap(i, j) *= w_q(j, j);
  std::printf("x times the diagonal of W differs from x W by up to %.4f\n",
              largest_difference(trap, product(x, w_q), tokens));
}
