#include "cogwheel/distributed/attention.h"

#include <ATen/ops/tensor.h>

#include <string>
#include <vector>

#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/distributed/gathered_keys.h"
#include "cogwheel/ops/pairwise/elementwise/dropout_factors.h"
#include "cogwheel/ops/pairwise/pairwise_pass.h"
#include "cogwheel/ops/support/checks.h"

namespace cogwheel::distributed {
namespace {

constexpr std::string_view by_heads = "heads", by_gathering = "gather", chosen = "auto";

// Null for a name that ops::attention refuses.
const Mechanism* known(std::string_view name) {
  try {
    return &find_mechanism(name, "attention: mechanism");
  } catch (const UsageError&) {
    return nullptr;
  }
}

struct CutCall {
  const CutRanks& ranks;
  const Mechanism* mechanism;
  const at::Tensor &query, &key, &value;

  std::int64_t count() const { return ranks.group.count(); }
  bool divides_heads() const {
    const std::int64_t sub_heads = mechanism != nullptr ? mechanism->sub_heads() : 1;
    return query.size(1) % sub_heads == 0 && key.size(1) % (sub_heads * count()) == 0 &&
           ranks_divide_heads(count(), query.size(1) / sub_heads, value.size(1));
  }
};

// Whether by heads, else by gathering. Throws ValueError for what the method can't.
bool goes_by_heads(const CutCall& call, std::string_view method) {
  if (method != by_heads && method != by_gathering && method != chosen)
    ops::refuse("method", "auto, heads or gather", std::string(method));
  const bool is_matrix = call.mechanism != nullptr && call.mechanism->is_matrix();
  if (method == by_gathering && is_matrix)
    ops::refuse("method",
                "heads for " + std::string(call.mechanism->description.name) + ", a function of whole matrices",
                "gather");
  const bool divides = call.divides_heads();
  if ((method == by_heads || is_matrix) && !divides)
    ops::refuse("heads of query and value", "multiples of " + std::to_string(call.count()) + " ranks (method heads)",
                std::to_string(call.query.size(1)) + " and " + std::to_string(call.value.size(1)));
  return method == by_heads || (method == chosen && divides);
}

const std::string heads_text = "heads of attention";

// Rows of the heads of a rank, for a tensor with dimensions [B, H or 1, N or 1, …], of which 1 is for all.
at::Tensor rows_of_own_heads(const CutRanks& ranks, const at::Tensor& tensor, std::int64_t heads,
                             std::int64_t dim = 1) {
  const bool has_heads = tensor.size(dim) == heads && heads > 1, has_rows = tensor.size(dim + 1) > 1;
  if (has_rows && has_heads) return share_of_heads(ranks, tensor, {dim, dim + 1}, heads_text);
  if (has_rows) return all_tokens(ranks, tensor, dim + 1, heads_text);
  return has_heads ? own_heads(ranks.group, tensor, dim) : tensor;
}

at::Tensor with_dimensions(at::Tensor tensor, std::int64_t count) {
  while (tensor.dim() < count) tensor = tensor.unsqueeze(0);
  return tensor;
}

// What belongs to the heads of this rank, for all queries.
ops::AttentionOptions of_own_heads(const CutCall& call, const ops::AttentionOptions& given) {
  const CutRanks& ranks = call.ranks;
  const std::int64_t heads = call.query.size(1) / call.mechanism->sub_heads();
  ops::AttentionOptions options = given;
  for (auto* const weight : {&options.score_weight, &options.score_projection, &options.alibi})
    if (*weight && (*weight)->dim() > 0 && (*weight)->size(0) % call.count() == 0)
      *weight = own_heads(ranks.group, **weight, 0);
  for (auto* const bias : {&options.bias, &options.energy_bias})
    if (*bias && (*bias)->dim() <= 4) *bias = rows_of_own_heads(ranks, with_dimensions(**bias, 4), heads);
  if (options.ranges && options.ranges->dim() == 4) options.ranges = rows_of_own_heads(ranks, *options.ranges, heads);
  if (options.local_centers && options.local_centers->dim() == 3)
    options.local_centers = share_of_heads(ranks, *options.local_centers, {}, heads_text);
  if (options.seed && options.dropout > 0)
    options.seed = ops::DropoutSeed(*options.seed).of_part(0, 0, heads / call.count() * ranks.group.rank(), heads);
  for (auto& [name, tensor] : options.parameters) {
    if (name == "lam" && tensor.dim() >= 2)
      tensor = rows_of_own_heads(ranks, with_dimensions(tensor, 3), heads);
    else if (tensor.dim() > 0 && tensor.size(0) > 1 && tensor.size(0) % call.count() == 0)
      tensor = own_heads(ranks.group, tensor, 0);
  }
  return options;
}

// What `attend` makes of all tokens of some heads, for the tokens of this rank.
template <class Attend>
auto by_own_heads(const CutCall& call, const ops::AttentionOptions& given, const Attend& attend) {
  const std::vector<at::Tensor> shared =
      shares_of_heads(call.ranks, {call.query, call.key, call.value}, {}, heads_text);
  return attend(shared[0], shared[1], shared[2], of_own_heads(call, given));
}

CutCall checked(const CutRanks& ranks, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                std::string_view mechanism) {
  for (const auto& [name, tensor] : {std::pair("query", &query), {"key", &key}, {"value", &value}})
    if (tensor->dim() != 4 || tensor->size(2) == 0)
      ops::refuse(name, "[batch, heads, tokens of this rank, width], with tokens", ops::shape_text(*tensor));
  ranks.cut.places(ranks.group.rank(), query.size(2));
  ranks.cut.places(ranks.group.rank(), key.size(2));
  return {ranks, known(mechanism), query, key, value};
}

}  // namespace

at::Tensor attention(const CutRanks& ranks, std::string_view method, const at::Tensor& query, const at::Tensor& key,
                     const at::Tensor& value, std::string_view mechanism, const ops::AttentionOptions& options) {
  const CutCall call = checked(ranks, query, key, value, mechanism);
  const bool heads = goes_by_heads(call, method);
  if (call.mechanism == nullptr || ranks.group.count() == 1)
    return ops::attention(query, key, value, mechanism, options);
  if (heads)
    return share_of_tokens(
        ranks,
        by_own_heads(call, options,
                     [&](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         const ops::AttentionOptions& own) { return ops::attention(q, k, v, mechanism, own); }),
        {}, heads_text);
  GatheredKeys pass(ranks);
  return ops::attention_by(pass, query, key, value, mechanism, options);
}

std::tuple<at::Tensor, at::Tensor> attention_statistics(const CutRanks& ranks, std::string_view method,
                                                        const at::Tensor& query, const at::Tensor& key,
                                                        const at::Tensor& value, bool argmax,
                                                        std::string_view mechanism,
                                                        const ops::AttentionOptions& options) {
  const CutCall call = checked(ranks, query, key, value, mechanism);
  const bool heads = goes_by_heads(call, method);
  if (call.mechanism == nullptr || ranks.group.count() == 1)
    return ops::attention_statistics(query, key, value, argmax, mechanism, options);
  if (heads) {
    const auto [output, statistics] = by_own_heads(
        call, options,
        [&](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const ops::AttentionOptions& own) {
          return ops::attention_statistics(q, k, v, argmax, mechanism, own);
        });
    return {share_of_tokens(ranks, output, {}, heads_text), share_of_tokens(ranks, statistics, {2, 3}, heads_text)};
  }
  GatheredKeys pass(ranks);
  return ops::attention_statistics_by(pass, query, key, value, argmax, mechanism, options);
}

}  // namespace cogwheel::distributed
