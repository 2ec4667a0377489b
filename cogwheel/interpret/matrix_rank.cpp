#include "cogwheel/interpret/matrix_rank.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/shape_text.h"
#include "cogwheel/ops/pairwise/attention.h"

namespace cogwheel::interpret {

MatrixRank matrix_rank(const at::Tensor& matrix) {
  const torch::NoGradGuard no_gradient;
  if (matrix.dim() != 2 || matrix.numel() == 0)
    throw UsageError(expected_got("matrix", "[rows, columns] with some numbers", shape_text(matrix.sizes())));
  const at::Tensor wide = matrix.to(at::kCPU, at::kDouble);
  if (!wide.isfinite().all().item<bool>())
    throw UsageError(expected_got("matrix", "finite numbers", "NaN or infinity"));
  const at::Tensor found = at::linalg_svdvals(wide).contiguous();
  MatrixRank rank;
  rank.singular_values.assign(found.const_data_ptr<double>(), found.const_data_ptr<double>() + found.numel());
  rank.negative_share = (wide < 0).to(at::kDouble).mean().item<double>();
  const double largest = rank.singular_values.front();
  if (!(largest > 0)) return rank;
  const double least =
      largest * static_cast<double>(std::max(wide.size(0), wide.size(1))) * std::numeric_limits<double>::epsilon();
  double sum = 0, squares = 0, weighted_logs = 0;
  for (const double each : rank.singular_values) {
    const double share = each / largest;
    sum += share, squares += share * share;
    if (share > 0) weighted_logs += share * std::log(share);
    rank.numerical += each > least;
  }
  rank.effective = std::exp(std::log(sum) - weighted_logs / sum);
  rank.stable = squares;
  return rank;
}

std::vector<NamedMatrix> score_matrices(const at::Tensor& query, const at::Tensor& key, double norm) {
  const torch::NoGradGuard no_gradient;
  if (query.dim() != 2 || query.sizes() != key.sizes())
    throw UsageError(expected_got("query and key", "[tokens, width] both",
                                  shape_text(query.sizes()) + " and " + shape_text(key.sizes())));
  const at::Tensor q = query.to(at::kCPU, at::kDouble), k = key.to(at::kCPU, at::kDouble);
  const std::int64_t tokens = q.size(0);
  const at::Tensor scores = q.matmul(k.t()) / std::sqrt(static_cast<double>(q.size(1)));
  at::Tensor gram = q.matmul(q.t());
  gram = gram * (norm / std::max(at::linalg_eigvalsh(gram).amax().item<double>(), std::numeric_limits<double>::min()));
  const at::Tensor square = gram.matmul(gram), exponential = at::matrix_exp(gram);
  std::vector<NamedMatrix> matrices;
  const auto add = [&](const std::string& name, const at::Tensor& values) { matrices.push_back({name, values}); };
  const auto add_with_causal = [&](const std::string& name, const at::Tensor& values) {
    add(name, values);
    add(name + ", causal", values.tril());
  };
  add_with_causal("QKᵀ", scores);
  add_with_causal("QQᵀ", gram);
  add("(QQᵀ)²", square);
  add("(QQᵀ)³", square.matmul(gram));
  add_with_causal("exp(QQᵀ)", exponential);
  add("exp(QQᵀ) − I", exponential - at::eye(tokens, exponential.options()));
  // A factor, which changes no rank, keeps it finite.
  add_with_causal("exp of each QKᵀ", (scores - scores.amax()).exp());
  for (const auto& [mechanism, name] : {std::pair("softmax", "softmax"), std::pair("cog", "Cog")})
    for (const bool causal : {false, true})
      add(name + std::string(causal ? ", causal" : ""),
          ops::attention_weights(q.view({1, 1, tokens, -1}), k.view({1, 1, tokens, -1}), mechanism,
                                 {.causal = causal})[0][0]);
  return matrices;
}

}  // namespace cogwheel::interpret
