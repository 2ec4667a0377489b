#include "cogwheel/ops/cache/key_value_cache.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cogwheel/attention/kernels/pairwise/pairwise.h"
#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/core/range.h"
#include "cogwheel/ops/cache/cache_checks.h"
#include "cogwheel/ops/cache/decode.h"
#include "cogwheel/ops/pairwise/attention_schema.h"
#include "cogwheel/ops/pairwise/pairwise_engine.h"
#include "cogwheel/ops/support/find_operator.h"
#include "cogwheel/ops/support/key_panels.h"
#include "cogwheel/ops/support/recorded_node.h"
#include "cogwheel/ops/support/unwritten_zeros.h"

namespace cogwheel::ops {
namespace {

// Appended numbers of `width`, beside those that the cache has; `tokens` below 0: any number of them.
void check_part(const std::string& what, const at::Tensor& part, const at::Tensor& whole, std::int64_t width,
                std::int64_t tokens) {
  if (part.scalar_type() != whole.scalar_type() || part.device() != whole.device())
    refuse_cache(what, std::string(c10::toString(whole.scalar_type())) + " on " + whole.device().str(),
                 std::string(c10::toString(part.scalar_type())) + " on " + part.device().str());
  const bool fits = part.dim() == 4 && part.size(0) == whole.size(0) && part.size(1) == whole.size(1) &&
                    (tokens < 0 || part.size(2) == tokens) && part.size(3) == width;
  if (fits) return;
  const std::string length = tokens < 0 ? "tokens" : std::to_string(tokens);
  refuse_cache(what,
               "[" + std::to_string(whole.size(0)) + ", " + std::to_string(whole.size(1)) + ", " + length + ", " +
                   std::to_string(width) + "]",
               shape_text(part));
}

// Whether the engine of a device reads such keys in panels.
bool lie_in_panels(at::ScalarType type, at::Device device, std::int64_t head_dim) {
  const PairwiseEngine* const engine = pairwise_engine(device.type());
  return engine != nullptr && engine->key_panels && head_dim >= min_head_dim && head_dim <= max_head_dim &&
         std::find(engine->dtypes.begin(), engine->dtypes.end(), type) != engine->dtypes.end();
}

}  // namespace

KeyValueCache::KeyValueCache(const KeyValueCacheSizes& sizes, at::ScalarType type, at::Device device) {
  const auto at_least_one = [](const char* name, std::int64_t size) {
    if (size < 1) refuse_cache(name, "1 or more", std::to_string(size));
    return size;
  };
  const std::int64_t batch = at_least_one("batch", sizes.batch), capacity = at_least_one("capacity", sizes.capacity);
  const std::int64_t key_heads = at_least_one("key_heads", sizes.key_heads);
  const std::int64_t head_dim = at_least_one("head_dim", sizes.head_dim);
  const std::int64_t value_heads = at_least_one("value_heads", sizes.value_heads.value_or(key_heads));
  const std::int64_t value_dim = at_least_one("value_dim", sizes.value_dim.value_or(head_dim));
  if (type != at::kFloat && type != at::kDouble && type != at::kBFloat16 && type != at::kHalf && type != at::kChar)
    refuse_cache("dtype", "float32, float64, bfloat16 or float16", c10::toString(type));
  const double widest = std::max(double(key_heads) * double(head_dim), double(value_heads) * double(value_dim));
  const double bytes = double(batch) * double(capacity) * widest * double(at::elementSize(type));
  if (bytes >= 0x1p63) refuse_cache("memory", "fewer than 2^63 bytes", number_text(bytes));
  // Not an inference tensor, because any mode may write to it later.
  const c10::InferenceMode ordinary(false);
  const std::vector<std::int64_t> rows{batch, key_heads, capacity, head_dim};
  const std::vector<std::int64_t> keys =
      lie_in_panels(type, device, head_dim) ? sizes_of_panels(batch, key_heads, capacity, head_dim, type) : rows;
  key_ = unwritten_zeros(c10::fromIntArrayRefSlow(keys), type, device);
  value_ = unwritten_zeros({batch, value_heads, capacity, value_dim}, type, device);
  lengths_ = at::zeros({batch}, at::TensorOptions(at::kLong));
}

KeyValueCache::KeyValueCache(at::Tensor key, at::Tensor value, at::Tensor lengths)
    : key_(std::move(key)), value_(std::move(value)), lengths_(std::move(lengths)) {}

void KeyValueCache::check_used(std::string_view call) const {
  if (!key_.defined()) refuse_cache(std::string(call), "a cache in use", "one that was freed");
}

std::int64_t KeyValueCache::longest() const { return cache_longest(lengths_, capacity()).expect_int(); }

void KeyValueCache::append(const at::Tensor& key, const at::Tensor& value, const std::optional<at::Tensor>& added) {
  check_used("append");
  check_part("key", key, key_, head_dim(), -1);
  check_part("value", value, value_, value_.size(3), key.size(2));
  const std::int64_t batch = key.size(0), tokens = key.size(2);
  const at::Tensor counts =
      added ? checked_integers("lengths", *added, batch) : at::full({batch}, tokens, lengths_.options());
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t count = numbers(counts)[b], room = capacity() - numbers(lengths_)[b];
    if (count < 0 || count > tokens)
      refuse_cache("lengths" + of_entry(b), "0 to " + std::to_string(tokens) + " (the tokens of key)",
                   std::to_string(count));
    if (count > room)
      refuse_cache("append to entry " + std::to_string(b),
                   "at most " + std::to_string(room) + " more tokens (capacity " + std::to_string(capacity()) + ")",
                   std::to_string(count));
  }
  const at::NoGradGuard no_gradient;
  auto* lengths = lengths_.mutable_data_ptr<std::int64_t>();
  for (std::int64_t b = 0; b < batch;) {
    // Entries of equal length are copied together.
    std::int64_t end = b + 1;
    while (end < batch && lengths[end] == lengths[b] && numbers(counts)[end] == numbers(counts)[b]) ++end;
    const auto added_to = [&](const at::Tensor& part) {
      return part.detach().narrow(0, b, end - b).narrow(2, 0, numbers(counts)[b]);
    };
    write_keys(key_.narrow(0, b, end - b), lengths[b], added_to(key));
    value_.narrow(0, b, end - b).narrow(2, lengths[b], numbers(counts)[b]).copy_(added_to(value));
    b = end;
  }
  for (std::int64_t b = 0; b < batch; ++b) lengths[b] += numbers(counts)[b];
}

at::Tensor KeyValueCache::attend(const at::Tensor& query, std::string_view mechanism, const AttentionOptions& options,
                                 const std::optional<at::Tensor>& query_lengths) const {
  check_used("attend");
  return decode(query, key_, value_, lengths_, query_lengths, mechanism, options);
}

void KeyValueCache::crop(const at::Tensor& kept) {
  check_used("crop");
  const at::Tensor lengths = checked_integers("crop", kept, lengths_.numel());
  for (std::int64_t b = 0; b < lengths_.numel(); ++b)
    if (const std::int64_t length = numbers(lengths)[b]; length < 0 || length > numbers(lengths_)[b])
      refuse_cache("crop" + of_entry(b), "0 to " + std::to_string(numbers(lengths_)[b]) + " (its length)",
                   std::to_string(length));
  lengths_.copy_(lengths);
}

void KeyValueCache::forget(std::int64_t first, std::int64_t count) {
  check_used("forget");
  check_forgotten(lengths_, first, count);
  const at::NoGradGuard no_gradient;
  auto* const lengths = lengths_.mutable_data_ptr<std::int64_t>();
  for (std::int64_t b = 0; b < lengths_.numel(); ++b) {
    const std::int64_t moved = lengths[b] - first - count;
    const at::Tensor keys = key_.narrow(0, b, 1), values = value_[b];
    // Copies, because the places may overlap.
    write_keys(keys, first, read_keys(keys, first + count, moved));
    values.narrow(1, first, moved).copy_(values.narrow(1, first + count, moved).clone());
    lengths[b] -= count;
  }
}

KeyValueCache KeyValueCache::fork(const at::Tensor& entries) const {
  check_used("fork");
  const at::Tensor chosen = checked_entries(entries, lengths_.numel());
  KeyValueCache copy({.batch = chosen.numel(),
                      .key_heads = key_.size(1),
                      .value_heads = value_.size(1),
                      .capacity = capacity(),
                      .head_dim = head_dim(),
                      .value_dim = value_.size(3)},
                     key_.scalar_type(), key_.device());
  const at::NoGradGuard no_gradient;
  for (std::int64_t i = 0; i < chosen.numel(); ++i) {
    const std::int64_t entry = numbers(chosen)[i], length = numbers(lengths_)[entry];
    first_keys(copy.key_.narrow(0, i, 1), length).copy_(first_keys(key_.narrow(0, entry, 1), length));
    copy.value_[i].narrow(1, 0, length).copy_(value_[entry].narrow(1, 0, length));
    copy.lengths_.mutable_data_ptr<std::int64_t>()[i] = length;
  }
  return copy;
}

at::Tensor KeyValueCache::keys(std::int64_t first, std::int64_t count) const {
  check_used("keys");
  return read_keys(key_, first, count);
}

void KeyValueCache::write_keys_at(std::int64_t first, const at::Tensor& keys) {
  check_used("keys");
  write_keys(key_, first, keys);
}

std::int64_t KeyValueCache::head_dim() const { return head_dim_of(key_).expect_int(); }

void KeyValueCache::free() { key_ = value_ = lengths_ = at::Tensor(); }

namespace {

using Tensors = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

Tensors tensors(const KeyValueCache& cache) { return {cache.key(), cache.value(), cache.lengths()}; }

// The operators have kernels of their own, rather than being compositions, because they read lengths: a compiled graph
// calls them as they are.

Tensors make_cache(std::int64_t batch, std::int64_t key_heads, std::int64_t capacity, std::int64_t head_dim,
                   std::optional<std::int64_t> value_dim, std::optional<std::int64_t> value_heads, at::ScalarType type,
                   std::optional<at::Device> device) {
  if (type == at::kChar) refuse_cache("dtype", "float32, float64, bfloat16 or float16", c10::toString(type));
  return tensors(KeyValueCache({.batch = batch,
                                .key_heads = key_heads,
                                .value_heads = value_heads,
                                .capacity = capacity,
                                .head_dim = head_dim,
                                .value_dim = value_dim},
                               type, device.value_or(at::kCPU)));
}

void append(const at::Tensor& cache_key, const at::Tensor& cache_value, const at::Tensor& cache_lengths,
            const at::Tensor& key, const at::Tensor& value, const std::optional<at::Tensor>& added) {
  KeyValueCache(cache_key, cache_value, cache_lengths).append(key, value, added);
  // Lets autograd notice that tensors it saved have changed.
  for (const at::Tensor& changed : {cache_key, cache_value, cache_lengths})
    if (!changed.is_inference()) changed.unsafeGetTensorImpl()->bump_version();
}

// Known lengths are updated even where keys have no data.
void append_meta(const at::Tensor& cache_key, const at::Tensor& cache_value, const at::Tensor& cache_lengths,
                 const at::Tensor& key, const at::Tensor& value, const std::optional<at::Tensor>& added) {
  if (cache_lengths.is_cpu()) append(cache_key, cache_value, cache_lengths, key, value, added);
}

void crop(const at::Tensor& key, const at::Tensor& value, const at::Tensor& lengths, const at::Tensor& kept) {
  KeyValueCache(key, value, lengths).crop(kept);
}

void crop_meta(const at::Tensor& key, const at::Tensor& value, const at::Tensor& lengths, const at::Tensor& kept) {
  if (lengths.is_cpu()) crop(key, value, lengths, kept);
}

// [B, Hk, count, D], a copy, by operators that every transform has: the count is given, because tensors without data
// have no lengths.
at::Tensor keys_of_cache(const at::Tensor& key, c10::SymInt count) {
  return are_panels(key) ? rows_of_panels(key, count) : key.narrow_symint(2, 0, count).clone();
}

Tensors fork(const at::Tensor& key, const at::Tensor& value, const at::Tensor& lengths, const at::Tensor& entries) {
  return tensors(KeyValueCache(key, value, lengths).fork(entries));
}

Tensors fork_meta(const at::Tensor& key, const at::Tensor& value, const at::Tensor& lengths,
                  const at::Tensor& entries) {
  if (lengths.is_cpu()) return fork(key, value, lengths, entries);
  const auto with_entries = [&](const at::Tensor& part) {
    auto sizes = part.sym_sizes().vec();
    sizes[0] = entries.sym_numel();
    return part.new_empty_symint(sizes);
  };
  return {with_entries(key), with_entries(value), with_entries(lengths)};
}

at::Tensor attend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const at::Tensor& lengths,
                  const std::optional<at::Tensor>& query_lengths, std::string_view mechanism,
                  const AttentionOptions& options) {
  return decode(query, key, value, lengths, query_lengths, mechanism, options).contiguous();
}

at::Tensor attend_meta(const at::Tensor& query, const at::Tensor&, const at::Tensor& value, const at::Tensor&,
                       const std::optional<at::Tensor>&, std::string_view mechanism, const AttentionOptions&) {
  return query.new_empty_symint({query.sym_size(0), query.sym_size(1) / find_mechanism(mechanism).sub_heads(),
                                 query.sym_size(2), value.sym_size(3)});
}

using UnbundledAttend = Unbundled<attend>;

void collect(variable_list& tensors, const at::Tensor& tensor) { tensors.push_back(tensor); }
void collect(variable_list& tensors, const std::optional<at::Tensor>& tensor) {
  if (tensor) tensors.push_back(*tensor);
}
void collect(variable_list& tensors, at::TensorList more) { tensors.insert(tensors.end(), more.begin(), more.end()); }
template <class Other>
void collect(variable_list&, const Other&) {}

// Derivatives reach queries, biases and parameters through the operators that attention is composed of; where none is
// needed it is one call.
template <class Signature>
struct AttendUnderAutograd;
template <class... Arguments>
struct AttendUnderAutograd<at::Tensor(Arguments...)> {
  static at::Tensor call(Arguments... arguments) {
    variable_list tensors;
    (collect(tensors, arguments), ...);
    if (needs_record(tensors) || has_tangent(tensors)) return UnbundledAttend::call(arguments...);
    static const auto handle = find_operator<UnbundledAttend::Signature>("cogwheel::cache_attend");
    const at::AutoDispatchBelowADInplaceOrView below;
    return handle.call(arguments...);
  }
};

}  // namespace

TORCH_LIBRARY_FRAGMENT(cogwheel, library) {
  library.def(
      "make_cache(int batch, int key_heads, int capacity, int head_dim, int? value_dim, int? value_heads, ScalarType "
      "dtype, Device? device=None) -> (Tensor key, Tensor value, Tensor lengths)",
      make_cache);
  library.def(
      "cache_append(Tensor(a!) cache_key, Tensor(b!) cache_value, Tensor(c!) cache_lengths, Tensor key, Tensor value, "
      "Tensor? lengths) -> ()");
  library.def("cache_crop(Tensor cache_key, Tensor cache_value, Tensor(a!) cache_lengths, Tensor lengths) -> ()");
  library.def("cache_keys(Tensor cache_key, SymInt count) -> Tensor", keys_of_cache);
  library.def(
      "cache_fork(Tensor cache_key, Tensor cache_value, Tensor cache_lengths, Tensor entries) -> (Tensor key, Tensor "
      "value, Tensor lengths)");
}

// For every device: they read only lengths, which are on the host, and move the rest by ATen's operators.
TORCH_LIBRARY_IMPL(cogwheel, CompositeExplicitAutograd, library) {
  library.impl("cache_append", append);
  library.impl("cache_crop", crop);
  library.impl("cache_fork", fork);
  library.impl("cache_attend", UnbundledAttend::call);
}

TORCH_LIBRARY_IMPL(cogwheel, Autograd, library) {
  library.impl("cache_attend", AttendUnderAutograd<UnbundledAttend::Signature>::call);
}

// As those of attention (library.cpp).
TORCH_LIBRARY_IMPL(cogwheel, FuncTorchBatched, library) { library.impl("cache_attend", UnbundledAttend::call); }

TORCH_LIBRARY_IMPL(cogwheel, Meta, library) {
  library.impl("cache_append", append_meta);
  library.impl("cache_crop", crop_meta);
  library.impl("cache_fork", fork_meta);
  library.impl("cache_attend", Unbundled<attend_meta>::call);
}

}  // namespace cogwheel::ops
