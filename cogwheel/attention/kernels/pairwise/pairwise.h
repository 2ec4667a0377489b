// Pairwise attention by kernels: every row map of the catalogue, forward and backward, in O(queries + keys) memory.
//
// Pointers, sizes and strides; no libtorch. The caller provides the threads (core/parallel.h) and the memory. Sizes and
// pointers are asserted, not checked: `ops/` checks what users pass.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/attention/kernels/heads_view.h"
#include "cogwheel/attention/kernels/isa.h"
#include "cogwheel/attention/kernels/key_panels.h"
#include "cogwheel/attention/kernels/pairwise/modifiers.h"
#include "cogwheel/attention/kernels/pairwise/row_statistics.h"
#include "cogwheel/core/parallel.h"
#include "cogwheel/core/visibility.h"

namespace cogwheel {

struct PairProduct;  // cpu/pair_product.h

// Widths of a query and a key.
inline constexpr std::int64_t min_head_dim = 8, max_head_dim = 1024;

// Query head h reads key head sub_heads·⌊h′/r⌋ + c and value head ⌊h′/r⌋, where h = sub_heads·h′ + c and r query heads
// share a value head. sub_heads is 1, or the number of members of a mixture over shared values (2 for differential).
struct PairwiseShape {
  std::int64_t batch = 1;
  std::int64_t query_heads = 1, value_heads = 1;
  std::int64_t sub_heads = 1;
  std::int64_t queries = 0, keys = 0;
  std::int64_t head_dim = 0;   // min_head_dim to max_head_dim
  std::int64_t value_dim = 0;  // any width from 1

  std::int64_t key_heads() const { return value_heads * sub_heads; }
  std::int64_t query_heads_per_value_head() const { return query_heads / value_heads; }
  std::int64_t output_head(std::int64_t query_head) const { return query_head / sub_heads; }
  std::int64_t value_head(std::int64_t query_head) const { return query_head / query_heads_per_value_head(); }
  std::int64_t key_head(std::int64_t query_head) const {
    return value_head(query_head) * sub_heads + query_head % sub_heads;
  }
};

// Which keys the queries of each head see: one rule for all, the length of each batch entry, or tables of ranges.
struct PairwiseVisibility {
  Visibility rule = {};
  const std::int64_t* key_lengths = nullptr;  // [batch]: keys at and beyond are hidden, the diagonal stays
  // [batch], in place of the rule's diagonal and of ALiBi's: query i of entry b stands at key first_positions[b] + i.
  const std::int64_t* first_positions = nullptr;

  // [tables][queries] and [tables][keys]; batch entry b and output head h read table b·batch_stride + h·head_stride.
  const KeyRange* ranges = nullptr;
  const QueryRange* seen_by = nullptr;
  std::int64_t queries = 0, batch_stride = 0, head_stride = 0;

  // Whether a query may see other keys than its neighbours in the batch entry.
  bool differs_by_query() const { return rule.causal || ranges; }

  Visibility of(std::int64_t batch, std::int64_t output_head) const {
    Visibility visibility = rule;
    if (key_lengths) visibility.keys = key_lengths[batch];
    if (first_positions) visibility.diagonal = first_positions[batch];
    if (ranges) {
      const std::int64_t table = batch * batch_stride + output_head * head_stride;
      visibility.ranges = ranges + table * queries;
      visibility.seen_by = seen_by + table * rule.keys;
    }
    return visibility;
  }
};

// The part that forward and backward share.
template <class T>
struct PairwiseProblem {
  PairwiseShape shape = {};
  PairwiseVisibility visibility = {};
  Modifiers<T> modifiers = {};
  T scale = 1;                         // s = scale · q·k, or
  const T* score_weight = nullptr;     // s = scale · v·tanh(q + k) where v [query_heads, head_dim] is not null
  const double* parameters = nullptr;  // θ [query_heads, parameters of the map]; null for maps without
  // Values are the identity, value_dim = keys, and not read: the output is the weights. Work stays that of the scores.
  bool identity_values = false;
  HeadsView<const T> query = {}, key = {}, value = {};
  // Forward only, of scores that are products: where there are any, these are the keys, and `key` is not read.
  KeyPanels<T> key_panels = {};
  // What multiplies bfloat16 numbers, null for products of widened ones; by default chosen_pair_product().
  std::optional<const PairProduct*> pair_product = {};
};

// That of the process (product_choice.h).
const PairProduct* chosen_pair_product();

// Output and row totals. Backward needs the shift m and the mass G of each row, both [batch, query_heads, queries]; the
// table in attention/mechanisms/contract.h names them.
template <class T>
struct PairwiseForward : PairwiseProblem<T> {
  HeadsView<T> output;  // 0 for a query that sees no key
  T* shift = nullptr;
  T* mass = nullptr;
  RowStatistics<T> statistics = {};  // of the rows of shift and mass
};

// The results of forward for a mixture's members: a = w (f₁/N₁ + c f₂/N₂) with two sub-heads, a = w (f/N − 1/n) with
// one, n the number of keys that the query sees. Values are not read.
template <class T>
struct MixtureStatistics : PairwiseProblem<T> {
  const T* shift = nullptr;  // [batch, query_heads, queries]
  const T* mass = nullptr;
  const T* coefficient = nullptr;    // c [batch, heads of the output, queries]; null for one sub-head
  RowStatistics<T> statistics = {};  // rows [batch, heads of the output, queries]
};

// Gradients are the same bit for bit, whatever the number of workers.
template <class T>
struct PairwiseBackward : PairwiseProblem<T> {
  HeadsView<const T> output, output_gradient;
  const T* shift = nullptr;
  const T* mass = nullptr;
  HeadsView<T> query_gradient, key_gradient, value_gradient;  // none of values that are the identity
  double* parameter_gradient = nullptr;                       // [query_heads, parameters]; null for maps without
  double* score_weight_gradient = nullptr;                    // [query_heads, head_dim]; null where score_weight is
  // Of the modifiers, for each query head, where not null: [batch, query_heads, queries, keys], 0 before the call, and
  // [batch, query_heads, queries].
  T* bias_gradient = nullptr;
  T* energy_bias_gradient = nullptr;
  double* centers_gradient = nullptr;
};

template <class T>
struct PairwiseKernel {
  void (*forward)(const PairwiseForward<T>&, const Executor&);
  void (*backward)(const PairwiseBackward<T>&, const Executor&);
  void (*mixture_statistics)(const MixtureStatistics<T>&, const Executor&);
};

inline constexpr std::string_view cpu_device = "cpu";

// The kernel of a row map on a device, of the CPU for an instruction set, by default the one that this process runs. T
// is float, which also serves 16-bit elements, or double. One look-up in a hash table. Throws UsageError: "no kernel
// for …".
template <class T>
PairwiseKernel<T> pairwise_kernel(std::string_view mechanism, std::string_view device = cpu_device,
                                  std::string_view isa = chosen_isa());

// Every kernel of the CPU in the table, for `cogwheel list kernels`, and which ones a process runs whose instruction
// set is `isa`.
struct KernelEntry {
  std::string_view mechanism, device, isa, dtype;
  bool chosen;
  std::string reason;  // why it is chosen or not
};
std::vector<KernelEntry> available_kernels(std::string_view isa = chosen_isa());

}  // namespace cogwheel
