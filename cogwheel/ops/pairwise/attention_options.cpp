#include "cogwheel/ops/pairwise/attention_options.h"

#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "cogwheel/ops/pairwise/elementwise/dropout_factors.h"
#include "cogwheel/ops/pairwise/ranges.h"
#include "cogwheel/ops/support/checks.h"

namespace cogwheel::ops {
namespace {

std::string text(double number) {
  std::ostringstream out;
  out << number;
  return out.str();
}

// One call, for the messages.
struct AttentionCall {
  const Mechanism& mechanism;
  const at::Tensor& query;
  c10::SymInt batch, heads, queries, keys;  // of the output

  std::string name() const { return std::string(mechanism.description.name); }
};

void check_integer_type(std::string_view name, const at::Tensor& tensor, bool also_int32) {
  const at::ScalarType type = tensor.scalar_type();
  if (type != at::kLong && !(also_int32 && type == at::kInt))
    refuse(std::string(name) + " dtype", also_int32 ? "int32 or int64" : "int64", c10::toString(type));
}

void check_integers(std::string_view name, const at::Tensor& tensor, const at::Tensor& query, bool also_int32) {
  check_integer_type(name, tensor, also_int32);
  check_device(name, tensor, query);
}

void check_bias(std::string_view name, const at::Tensor& bias, const AttentionCall& call) {
  check_like(name, bias, call.query);
  const c10::SymInt whole[] = {call.batch, call.heads, call.queries, call.keys};
  bool fits = bias.dim() <= 4;
  for (std::int64_t back = 1; fits && back <= bias.dim(); ++back)
    fits = bias.sym_size(-back) == 1 || bias.sym_size(-back) == whole[4 - back];
  if (!fits)
    refuse(name, "broadcastable to " + shape_text({call.batch, call.heads, call.queries, call.keys}), shape_text(bias));
}

// The window of Luong's local attention as ranges, and the Gaussian of local-p.
void describe_local(PairwiseOptions& options, const AttentionCall& call, const AttentionOptions& given) {
  const double radius = *given.local_radius;
  if (!(radius > 0) || !std::isfinite(radius)) refuse("local_radius", "a number above 0", text(radius));
  if (given.window) refuse("local_radius", "none beside window", text(radius));
  if (given.cu_seqlens) refuse("local_radius", "none beside cu_seqlens", text(radius));
  const c10::SymInt diagonal = options.mask == mask::causal ? call.keys - call.queries : c10::SymInt(0);
  at::Tensor centers;
  if (given.local_centers) {
    check_like("local_centers", *given.local_centers, call.query);
    const auto& sizes = *given.local_centers;
    if (sizes.dim() != 3 || sizes.sym_size(0) != call.batch || sizes.sym_size(1) != call.heads ||
        sizes.sym_size(2) != call.queries)
      refuse("local_centers", shape_text({call.batch, call.heads, call.queries}), shape_text(sizes));
    options.centers = given.local_centers;
    options.sigma = radius / 2;
    centers = given.local_centers->detach();
  } else {
    centers = at::arange(at::Scalar(call.queries), call.query.options().dtype(widest_type(call.query)));
    if (given.first_positions)
      centers = at::add(centers.view_symint({1, 1, call.queries}), given.first_positions->view({-1, 1, 1}));
    else
      centers = at::add(centers, at::Scalar(diagonal)).view_symint({1, 1, call.queries});
  }
  options.ranges =
      local_ranges(centers, call.keys, radius, given.causal, diagonal, given.key_lengths, given.first_positions);
}

void describe_ranges(PairwiseOptions& options, const AttentionCall& call, const AttentionOptions& given) {
  const at::Tensor& ranges = *given.ranges;
  const std::pair<const char*, bool> others[] = {{"causal", given.causal},
                                                 {"key_lengths", given.key_lengths.has_value()},
                                                 {"cu_seqlens", given.cu_seqlens.has_value()},
                                                 {"local_radius", given.local_radius.has_value()}};
  for (const auto& [name, is_given] : others)
    if (is_given) refuse("ranges", std::string("none beside ") + name, shape_text(ranges));
  check_integers("ranges", ranges, call.query, false);
  const auto fits = [&](std::int64_t axis, const c10::SymInt& whole) {
    return ranges.sym_size(axis) == 1 || ranges.sym_size(axis) == whole;
  };
  if (ranges.dim() != 4 || !fits(0, call.batch) || !fits(1, call.heads) || ranges.sym_size(2) != call.queries ||
      ranges.sym_size(3) != 2)
    refuse("ranges", shape_text({call.batch, call.heads, call.queries, 2}) + ", or 1 for batch or heads",
           shape_text(ranges));
  options.ranges = ranges;
}

void describe_visibility(PairwiseOptions& options, const AttentionCall& call, const AttentionOptions& given,
                         std::string_view causal_mask) {
  options.mask = given.causal ? causal_mask : mask::full;
  if (given.window) {
    if (*given.window < 1) refuse("window", "1 or more", std::to_string(*given.window));
    if (!given.causal) refuse("window", "causal=True beside it", "causal=False");
    // Large enough to see everything, and small enough that sums with positions stay within 64 bits.
    constexpr std::int64_t widest = std::int64_t{1} << 62;
    options.window = std::min(*given.window, widest);
  }
  if (given.key_lengths) {
    check_key_lengths(*given.key_lengths, call.query);
    options.key_lengths = given.key_lengths;
  }
  if (given.first_positions) {
    check_integers("first_positions", *given.first_positions, call.query, false);
    if (!given.causal && !given.alibi && (!given.local_radius || given.local_centers))
      refuse("first_positions", "causal, alibi, or local_radius without local_centers beside them", "none of these");
    if (given.first_positions->dim() != 1 || given.first_positions->sym_size(0) != call.batch)
      refuse("first_positions", shape_text({call.batch}) + ", one for each batch entry",
             shape_text(*given.first_positions));
    options.first_positions = given.first_positions;
  }
  if (given.cu_seqlens) {
    check_cu_seqlens(given, call.query, call.keys);
    options.ranges = packed_ranges(*given.cu_seqlens, call.queries, given.causal, options.window);
  }
  if (given.ranges) describe_ranges(options, call, given);
  if (given.local_radius)
    describe_local(options, call, given);
  else if (given.local_centers)
    refuse("local_centers", "local_radius beside them", shape_text(*given.local_centers));
}

void describe_modifiers(PairwiseOptions& options, const AttentionCall& call, const AttentionOptions& given) {
  if (given.softcap) {
    if (!(*given.softcap > 0) || !std::isfinite(*given.softcap))
      refuse("softcap", "a number above 0", text(*given.softcap));
    if (call.mechanism.takes_cosines())
      refuse("softcap", "none (the score of " + call.name() + " is a cosine)", text(*given.softcap));
    options.softcap = *given.softcap;
  }
  if (given.bias) {
    check_bias("bias", *given.bias, call);
    if (call.mechanism.takes_cosines())
      refuse("bias", "none (the score of " + call.name() + " is a cosine)", shape_text(*given.bias));
    options.bias = given.bias;
  }
  if (given.energy_bias) {
    check_bias("energy_bias", *given.energy_bias, call);
    if (!call.mechanism.pairwise()->has_energy)
      refuse("energy_bias", "none (" + call.name() + " has no exponent)", shape_text(*given.energy_bias));
    options.energy_bias = given.energy_bias;
  }
  if (given.alibi) {
    if (call.mechanism.takes_cosines())
      refuse("alibi", "none (the score of " + call.name() + " is a cosine)", shape_text(*given.alibi));
    if (!at::isFloatingType(given.alibi->scalar_type()))
      refuse("alibi dtype", "a floating-point type", c10::toString(given.alibi->scalar_type()));
    if (given.alibi->dim() != 1 || given.alibi->sym_size(0) != call.heads)
      refuse("alibi", shape_text({call.heads}) + ", one slope for each head", shape_text(*given.alibi));
    options.alibi = given.alibi->to(widest_type(*given.alibi));
  }
  if (!(given.dropout >= 0 && given.dropout < 1))
    refuse("dropout", "a probability from 0 to below 1", text(given.dropout));
  if (given.dropout > 0) {
    if (!given.seed) refuse("seed", "one int64 beside dropout", "nothing");
    check_integer_type("seed", *given.seed, false);
    if (!given.seed->is_cpu()) check_device("seed", *given.seed, call.query);
    if (given.seed->sym_numel() != 1 && given.seed->sym_numel() != numbers_of_part)
      refuse("seed", "one int64", shape_text(*given.seed));
    options.dropout = given.dropout;
    options.seed = given.seed;
  }
}

}  // namespace

void check_key_lengths(const at::Tensor& lengths, const at::Tensor& query) {
  check_integers("key_lengths", lengths, query, false);
  if (lengths.dim() != 1 || lengths.sym_size(0) != query.sym_size(0))
    refuse("key_lengths", shape_text({query.sym_size(0)}) + ", one for each batch entry", shape_text(lengths));
}

void check_cu_seqlens(const AttentionOptions& given, const at::Tensor& query, const c10::SymInt& keys) {
  const at::Tensor& cu_seqlens = *given.cu_seqlens;
  check_integers("cu_seqlens", cu_seqlens, query, true);
  if (cu_seqlens.dim() != 1 || cu_seqlens.sym_size(0) < 2)
    refuse("cu_seqlens", "[sequences + 1], at least 2 numbers", shape_text(cu_seqlens));
  if (given.key_lengths) refuse("cu_seqlens", "none beside key_lengths", shape_text(cu_seqlens));
  if (given.first_positions) refuse("cu_seqlens", "none beside first_positions", shape_text(cu_seqlens));
  if (query.sym_size(0) != 1) refuse("query batch", "1 beside cu_seqlens", size_text(query.sym_size(0)));
  if (query.sym_size(2) != keys)
    refuse("key length", size_text(query.sym_size(2)) + " (as query, beside cu_seqlens)", size_text(keys));
}

PairwiseOptions pairwise_options(const Mechanism& mechanism, const at::Tensor& query, const at::Tensor& key,
                                 const AttentionOptions& given, std::string_view causal_mask) {
  const AttentionCall call{mechanism,         query,
                           query.sym_size(0), query.sym_size(1) / mechanism.sub_heads(),
                           query.sym_size(2), key.sym_size(2)};
  PairwiseOptions options;
  options.sub_heads = mechanism.sub_heads();
  describe_visibility(options, call, given, causal_mask);
  describe_modifiers(options, call, given);
  return options;
}

}  // namespace cogwheel::ops
