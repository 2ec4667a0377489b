#include "cogwheel/ops/pairwise/dense_mechanisms.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/linalg_matrix_exp.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "cogwheel/ops/pairwise/attention_options.h"
#include "cogwheel/ops/pairwise/pairwise.h"
#include "cogwheel/ops/pairwise/ranges.h"
#include "cogwheel/ops/support/checks.h"
#include "cogwheel/ops/support/product.h"
#include "cogwheel/ops/support/shared_heads.h"

namespace cogwheel::ops {
namespace {

// One call, with key and value heads repeated for the query heads that they serve. Values without columns stand for the
// identity: the output is then the matrix itself.
struct DenseCall {
  at::Tensor query, key, value;
  bool causal;
  double scale;
  at::Tensor lengths = {};  // [B], the visible keys of a batch entry; undefined: all

  // [B, 1, M, 1], true where a token is hidden.
  at::Tensor hidden(const c10::SymInt& tokens) const {
    const at::Tensor places = at::arange(at::Scalar(tokens), lengths.options());
    return (places >= lengths.unsqueeze(-1)).unsqueeze(1).unsqueeze(-1);
  }

  // A matrix whose columns are keys, times the values.
  at::Tensor times_values(const at::Tensor& matrix) const {
    if (!are_identity(value)) return product(matrix, value);
    return lengths.defined() ? matrix.masked_fill(hidden(key.sym_size(2)).mT(), 0) : matrix;
  }

  // The values, as the identity matrix times them.
  at::Tensor own_values() const {
    if (!are_identity(value)) return value;
    const c10::SymInt keys = key.sym_size(2);
    return times_values(
        at::eye_symint(keys, key.options()).expand_symint({key.sym_size(0), key.sym_size(1), keys, keys}));
  }
};

void check_square(const at::Tensor& query, const at::Tensor& key) {
  if (query.sym_size(2) == key.sym_size(2)) return;
  refuse("key length", size_text(query.sym_size(2)) + " (as query: a function of the whole matrix needs a square one)",
         size_text(key.sym_size(2)));
}

void check_dense_options(const Mechanism& mechanism, const at::Tensor& query, const at::Tensor& key,
                         const AttentionOptions& options, std::string_view causal_mask) {
  const std::pair<const char*, bool> given[] = {{"score", options.score != "dot"},
                                                {"score_weight", options.score_weight.has_value()},
                                                {"score_projection", options.score_projection.has_value()},
                                                {"softcap", options.softcap.has_value()},
                                                {"window", options.window.has_value()},
                                                {"first_positions", options.first_positions.has_value()},
                                                {"ranges", options.ranges.has_value()},
                                                {"bias", options.bias.has_value()},
                                                {"energy_bias", options.energy_bias.has_value()},
                                                {"alibi", options.alibi.has_value()},
                                                {"local_radius", options.local_radius.has_value()},
                                                {"local_centers", options.local_centers.has_value()},
                                                {"dropout", options.dropout != 0}};
  for (const auto& [name, is_given] : given)
    if (is_given)
      refuse(name,
             "none for " + std::string(mechanism.description.name) +
                 ", a dense mechanism by matrix products of dot scores",
             "one");
  if (options.causal && causal_mask != mask::causal) check_square(query, key);  // only then do both alignments agree
}

// Σ_j scale (x_i·k_j) v_j over the keys that row i sees.
at::Tensor linear(const DenseCall& call, const at::Tensor& x) {
  const at::Tensor scaled = x * call.scale;
  if (!call.causal && !are_identity(call.value)) return product(scaled, product(call.key.mT(), call.value));
  const at::Tensor scores = product(scaled, call.key.mT());
  return call.times_values(call.causal ? scores.tril() : scores);
}

// [H, terms] as one coefficient per head, [H, 1, 1].
at::Tensor coefficient(const at::Tensor& coefficients, std::int64_t term) {
  return coefficients.select(1, term).unsqueeze(-1).unsqueeze(-1);
}

at::Tensor polynomial(const DenseCall& call, const MechanismParameters& parameters) {
  const at::Tensor& coefficients = parameters.front().second;
  const c10::SymInt heads = call.query.sym_size(1);
  check_like("coefficients", coefficients, call.query);
  if (coefficients.dim() != 2 || coefficients.sym_size(0) != heads || coefficients.sym_size(1) < 1) {
    refuse("coefficients", "[" + size_text(heads) + ", terms], one row for each query head, from the power 0",
           shape_text(coefficients));
  }
  DenseCall of_queries = call;
  of_queries.value = call.query;
  at::Tensor output = coefficient(coefficients, 0) * call.own_values();
  at::Tensor x = call.query;  // row i: q_i M_iᵖ⁻¹
  for (std::int64_t power = 1; power < coefficients.size(1); ++power) {
    output = output + coefficient(coefficients, power) * linear(call, x);
    if (power + 1 < coefficients.size(1)) x = linear(of_queries, x);
  }
  return output;
}

// φ(M) = (exp(M) − I) M⁻¹ as a power series, which also serves a singular M: the corner of exp([[M, I], [0, 0]]).
at::Tensor phi(const at::Tensor& m) {
  const c10::SymInt size = m.sym_size(-1);
  const at::Tensor above = at::cat({m, at::eye_symint(size, m.options()).expand_as(m)}, -1);
  return at::linalg_matrix_exp(at::cat({above, at::zeros_like(above)}, -2))
      .slice_symint(-2, 0, size)
      .slice_symint(-1, size);
}

// The rows q_i φ(M) that take keys to the entries of exp(A) − I: q_i φ(M_i) where causal, with M_i a running sum of
// outer products, [B, H, N, D, D].
at::Tensor queries_through_phi(const DenseCall& call) {
  if (!call.causal) return product(call.query, phi(call.scale * product(call.key.mT(), call.query)));
  const at::Tensor columns = call.key.unsqueeze(-1), rows = call.query.unsqueeze(-2);
  const at::Tensor m = (call.scale * product(columns, rows)).cumsum(2);
  const at::Tensor left = call.query.unsqueeze(-2);
  return product(left, phi(m)).squeeze(-2);
}

at::Tensor exponential_minus_identity(const DenseCall& call) { return linear(call, queries_through_phi(call)); }

// Rows of exp(A) divided by their norm of order 1 or 2.
at::Tensor normalised_exponential(const DenseCall& call, int order) {
  const at::Tensor queries = queries_through_phi(call) * call.scale;
  const at::Tensor scores = product(queries, call.key.mT());
  const at::Tensor low_rank = call.causal ? scores.tril() : scores;
  const at::Tensor unscaled = low_rank + at::eye_symint(call.query.sym_size(2), call.query.options());
  // Scaled to the order of 1 before squaring: exp(A) may exceed the root of the largest number.
  const at::Tensor largest = unscaled.detach().abs().amax(-1, true);
  const at::Tensor rows = unscaled / at::where(largest > 0, largest, 1);
  const at::Tensor total = (order == 1 ? rows.abs() : rows * rows).sum(-1, true);
  const at::Tensor positive = at::where(total > 0, total, 1);
  return call.times_values(rows / (order == 1 ? positive : positive.sqrt()));
}

// Rows of hidden tokens are 0, so that they add nothing to any power of the matrix: those of keys and values, and of
// queries too where these are the same tokens.
DenseCall without_hidden_tokens(DenseCall call, const at::Tensor& lengths) {
  call.lengths = lengths;
  const auto cleared = [&](const at::Tensor& rows) { return rows.masked_fill(call.hidden(rows.sym_size(2)), 0); };
  call.key = cleared(call.key), call.value = cleared(call.value);
  if (call.query.sym_size(2) == call.key.sym_size(2)) call.query = cleared(call.query);
  return call;
}

// (1 + s/norm)/n over the visible keys, with the squared norm of each row or of the whole matrix.
at::Tensor simple_norm(const DenseCall& call, bool by_row) {
  const c10::SymInt queries = call.query.sym_size(2), keys = call.key.sym_size(2);
  const at::Tensor scores = call.scale * product(call.query, call.key.mT());
  at::Tensor visible = at::ones_symint({queries, keys}, scores.options());
  if (call.causal) visible = visible.tril((keys - queries).guard_int(__FILE__, __LINE__));
  if (call.lengths.defined())  // [B, 1, N, M]
    visible =
        visible * (at::arange(at::Scalar(keys), call.lengths.options()) < call.lengths.view({-1, 1, 1, 1})).to(visible);
  const at::Tensor squares = scores * scores;
  const at::Tensor norm = by_row ? (squares * visible).sum(-1, true) : squares.sum({-2, -1}, true);
  const at::Tensor share = at::where(norm > 0, scores / at::where(norm > 0, norm, 1), 0);
  return call.times_values(visible * (1 + share) / visible.sum(-1, true).clamp_min(1));
}

at::Tensor of_sequence(const Mechanism& mechanism, const DenseCall& call, const MechanismParameters& parameters) {
  const std::string_view name = mechanism.description.name;
  if (name == "simple_norm_by_row") return simple_norm(call, true);
  if (name == "simple_norm_by_matrix") return simple_norm(call, false);
  check_square(call.query, call.key);
  if (name == "polynomial") return polynomial(call, parameters);
  // Without tokens there is no exponential and no largest entry, but inputs have gradients.
  if (call.value.sym_size(2) == 0) return call.times_values(product(call.query, call.key.mT()));
  if (name == "matrix_exponential_by_row") return normalised_exponential(call, 1);
  if (name == "matrix_exponential_l2") return normalised_exponential(call, 2);
  const at::Tensor low_rank = exponential_minus_identity(call);
  return name == "matrix_exponential" ? call.own_values() + low_rank : low_rank;
}

// Each sequence by itself: the function is one of its own matrix.
at::Tensor of_packed(const Mechanism& mechanism, const DenseCall& call, const at::Tensor& cu_seqlens,
                     const MechanismParameters& parameters) {
  packed_ranges(cu_seqlens, call.query.sym_size(2), call.causal, 0);  // checks the numbers
  // Without data there are no numbers, and the shape is that of one sequence.
  if (cu_seqlens.is_meta()) return of_sequence(mechanism, call, parameters);
  const at::Tensor ends = cu_seqlens.to(at::kCPU, at::kLong).contiguous();
  std::vector<at::Tensor> outputs;
  for (std::int64_t s = 0; s + 1 < ends.numel(); ++s) {
    const std::int64_t first = ends.const_data_ptr<std::int64_t>()[s];
    const std::int64_t length = ends.const_data_ptr<std::int64_t>()[s + 1] - first;
    const auto rows = [&](const at::Tensor& tensor) { return tensor.narrow(2, first, length); };
    const at::Tensor output = of_sequence(
        mechanism, {rows(call.query), rows(call.key), rows(call.value), call.causal, call.scale}, parameters);
    const std::int64_t after = call.key.size(2) - first - length;
    outputs.push_back(are_identity(call.value) ? at::constant_pad_nd(output, {first, after}, 0) : output);
  }
  return at::cat(outputs, 2);
}

}  // namespace

at::Tensor dense_attention(const Mechanism& mechanism, const at::Tensor& query, const at::Tensor& key,
                           const at::Tensor& value, const AttentionOptions& options, std::string_view causal_mask) {
  check_dense_options(mechanism, query, key, options, causal_mask);
  const c10::SymInt heads = query.sym_size(1);
  const double root = std::sqrt(static_cast<double>(query.sym_size(3).guard_int(__FILE__, __LINE__)));
  const DenseCall call{query, for_query_heads(key, heads), for_query_heads(value, heads), options.causal,
                       options.scale.value_or(1 / root)};
  if (!std::isfinite(call.scale)) refuse("scale", "a finite number", std::to_string(call.scale));
  if (options.cu_seqlens) {
    check_cu_seqlens(options, query, key.sym_size(2));
    return of_packed(mechanism, call, *options.cu_seqlens, options.parameters);
  }
  if (!options.key_lengths) return of_sequence(mechanism, call, options.parameters);
  check_key_lengths(*options.key_lengths, query);
  if (!query.is_meta()) check_lengths(*options.key_lengths, key.size(2));
  return of_sequence(mechanism, without_hidden_tokens(call, *options.key_lengths), options.parameters);
}

}  // namespace cogwheel::ops
