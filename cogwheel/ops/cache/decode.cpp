#include "cogwheel/ops/cache/decode.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/ops/cache/cache_checks.h"
#include "cogwheel/ops/support/checks.h"
#include "cogwheel/ops/support/find_operator.h"
#include "cogwheel/ops/support/key_panels.h"

namespace cogwheel::ops {
namespace {

// Unknown names are left to `attention` to refuse.
bool is_dense(std::string_view name) {
  const Mechanism* const found = mechanism_or_null(name);
  return found != nullptr && found->is_matrix();
}

std::int64_t largest(const at::Tensor& lengths) {
  return *std::max_element(numbers(lengths), numbers(lengths) + lengths.numel());
}

c10::SymInt longest_cpu(const at::Tensor& lengths, c10::SymInt) { return largest(lengths); }
c10::SymInt longest_unknown(const at::Tensor&, c10::SymInt unless_known) { return unless_known; }

// The position of the first query of each entry, and the number of keys of the entry: a copy, since the cache grows.
std::tuple<at::Tensor, at::Tensor> positions_cpu(const at::Tensor& lengths, const std::optional<at::Tensor>& given,
                                                 c10::SymInt query_count, c10::SymInt key_count) {
  const std::int64_t batch = lengths.numel(), queries = query_count.expect_int(), keys = key_count.expect_int();
  const at::Tensor counts = given ? checked_integers("query_lengths", *given, batch) : at::Tensor();
  const at::Tensor first = at::empty({batch}, lengths.options()), key_lengths = at::empty({batch}, lengths.options());
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t length = numbers(lengths)[b], count = given ? numbers(counts)[b] : queries;
    if (const std::int64_t max_count = std::min(queries, length); count < 0 || count > max_count)
      refuse_cache("query_lengths" + of_entry(b),
                   "0 to " + std::to_string(max_count) + (max_count < queries ? " (its tokens)" : " (the queries)"),
                   std::to_string(count));
    // A compiled graph has a fixed number of keys in its bias.
    if (length > keys)
      refuse_cache("bias", "a last size of 1 or " + std::to_string(largest(lengths)) + " (the longest entry)",
                   std::to_string(keys));
    first.mutable_data_ptr<std::int64_t>()[b] = length - count;
    key_lengths.mutable_data_ptr<std::int64_t>()[b] = length;
  }
  return {first, key_lengths};
}

std::tuple<at::Tensor, at::Tensor> positions_meta(const at::Tensor& lengths, const std::optional<at::Tensor>&,
                                                  c10::SymInt, c10::SymInt) {
  return {at::empty_like(lengths), at::empty_like(lengths)};
}

std::tuple<at::Tensor, at::Tensor> cache_positions(const at::Tensor& lengths, const std::optional<at::Tensor>& given,
                                                   c10::SymInt queries, c10::SymInt keys) {
  static const auto handle = find_operator<decltype(positions_cpu)>("cogwheel::cache_positions");
  return handle.call(lengths, given, std::move(queries), std::move(keys));
}

}  // namespace

c10::SymInt cache_longest(const at::Tensor& lengths, c10::SymInt unless_known) {
  static const auto handle = find_operator<decltype(longest_cpu)>("cogwheel::cache_longest");
  return handle.call(lengths, std::move(unless_known));
}

at::Tensor decode(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const at::Tensor& lengths,
                  const std::optional<at::Tensor>& query_lengths, std::string_view mechanism,
                  const AttentionOptions& options) {
  if (query.dim() != 4 || query.sym_size(0) != key.sym_size(0))
    refuse_cache("query", "[" + size_text(key.sym_size(0)) + ", heads, tokens, head_dim]", shape_text(query));
  if (is_dense(mechanism))
    refuse("mechanism", "one whose rows stand alone, to decode",
           std::string(mechanism) + ", a function of the whole score matrix");
  if (options.key_lengths) refuse("key_lengths", "none beside a cache's own", shape_text(*options.key_lengths));
  if (options.first_positions)
    refuse("first_positions", "none beside a cache's own", shape_text(*options.first_positions));
  if (options.cu_seqlens) refuse("cu_seqlens", "none beside a cache", shape_text(*options.cu_seqlens));
  if (options.ranges) refuse("ranges", "none beside a cache", shape_text(*options.ranges));
  // Where the lengths cannot be read, as many keys as a bias has, or all.
  c10::SymInt keys_unless_known = value.sym_size(2);
  for (const auto* bias : {&options.bias, &options.energy_bias})
    if (*bias && (*bias)->dim() > 0 && (*bias)->sym_size(-1) != 1) keys_unless_known = (*bias)->sym_size(-1);
  const c10::SymInt keys = cache_longest(lengths, keys_unless_known);
  AttentionOptions from_cache = options;
  from_cache.causal = true;
  // The host has the lengths; they are copied to the device without waiting for it.
  const auto [first_positions, key_lengths] = cache_positions(lengths, query_lengths, query.sym_size(2), keys);
  from_cache.first_positions = first_positions.to(query.device(), true);
  from_cache.key_lengths = key_lengths.to(query.device(), true);
  const at::Tensor held = first_keys(key, keys), values = value.narrow_symint(2, 0, keys);
  return are_panels(key) ? attention_over_panels(query, held, values, mechanism, from_cache)
                         : attention(query, held, values, mechanism, from_cache);
}

TORCH_LIBRARY_FRAGMENT(cogwheel, library) {
  library.def("cache_longest(Tensor lengths, SymInt unless_known) -> SymInt");
  library.def(
      "cache_positions(Tensor lengths, Tensor? query_lengths, SymInt queries, SymInt keys) -> (Tensor first_positions, "
      "Tensor key_lengths)");
}

TORCH_LIBRARY_IMPL(cogwheel, CPU, library) {
  library.impl("cache_longest", longest_cpu);
  library.impl("cache_positions", positions_cpu);
}

TORCH_LIBRARY_IMPL(cogwheel, Meta, library) {
  library.impl("cache_longest", longest_unknown);
  library.impl("cache_positions", positions_meta);
}

TORCH_LIBRARY_IMPL(cogwheel, FuncTorchBatched, library) { library.impl("cache_longest", longest_unknown); }

}  // namespace cogwheel::ops
