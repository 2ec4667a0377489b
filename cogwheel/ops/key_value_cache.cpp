#include "cogwheel/ops/key_value_cache.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
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

#include "cogwheel/core/error.h"
#include "cogwheel/mechanisms/catalogue.h"
#include "cogwheel/ops/attention_schema.h"
#include "cogwheel/ops/checks.h"
#include "cogwheel/ops/decode.h"

namespace cogwheel {
namespace {

[[noreturn]] void refuse_cache(const std::string& what, const std::string& expected, const std::string& got) {
  const std::string message = expected_got("cache: " + what, expected, got);
  TORCH_CHECK_VALUE(false, message);
}

std::string of_entry(std::int64_t entry) { return " of entry " + std::to_string(entry); }

// One int64 for each of `count` entries, contiguous on the CPU.
at::Tensor checked_integers(const std::string& what, const at::Tensor& tensor, std::int64_t count) {
  const bool fits = tensor.scalar_type() == at::kLong && tensor.dim() == 1 && tensor.device().is_cpu() &&
                    (count < 0 || tensor.size(0) == count);
  if (!fits)
    refuse_cache(what, count < 0 ? "int64 [entries] on the cpu" : "int64 [" + std::to_string(count) + "] on the cpu",
                 c10::toString(tensor.scalar_type()) + (" " + shape_text(tensor)));
  return tensor.contiguous();
}

void check_part(const std::string& what, const at::Tensor& part, const at::Tensor& whole, std::int64_t tokens) {
  if (part.scalar_type() != whole.scalar_type() || part.device() != whole.device())
    refuse_cache(what, std::string(c10::toString(whole.scalar_type())) + " on " + whole.device().str(),
                 std::string(c10::toString(part.scalar_type())) + " on " + part.device().str());
  const bool fits = part.dim() == 4 && part.size(0) == whole.size(0) && part.size(1) == whole.size(1) &&
                    (tokens < 0 || part.size(2) == tokens) && part.size(3) == whole.size(3);
  if (fits) return;
  const std::string length = tokens < 0 ? "tokens" : std::to_string(tokens);
  refuse_cache(what,
               "[" + std::to_string(whole.size(0)) + ", " + std::to_string(whole.size(1)) + ", " + length + ", " +
                   std::to_string(whole.size(3)) + "]",
               shape_text(part));
}

const std::int64_t* numbers(const at::Tensor& tensor) { return tensor.const_data_ptr<std::int64_t>(); }

}  // namespace

KeyValueCache::KeyValueCache(const KeyValueCacheSizes& sizes, at::ScalarType type) {
  const auto at_least_one = [](const char* name, std::int64_t size) {
    if (size < 1) refuse_cache(name, "1 or more", std::to_string(size));
    return size;
  };
  const std::int64_t batch = at_least_one("batch", sizes.batch), capacity = at_least_one("capacity", sizes.capacity);
  const std::int64_t key_heads = at_least_one("key_heads", sizes.key_heads);
  const std::int64_t head_dim = at_least_one("head_dim", sizes.head_dim);
  const std::int64_t value_heads = at_least_one("value_heads", sizes.value_heads == 0 ? key_heads : sizes.value_heads);
  const std::int64_t value_dim = at_least_one("value_dim", sizes.value_dim == 0 ? head_dim : sizes.value_dim);
  if (type != at::kFloat && type != at::kDouble && type != at::kBFloat16 && type != at::kHalf)
    refuse_cache("dtype", "float32, float64, bfloat16 or float16", c10::toString(type));
  // Written to in any mode later on. Pages of zeros take no memory before they are written to.
  const c10::InferenceMode ordinary(false);
  key_ = at::zeros({batch, key_heads, capacity, head_dim}, at::TensorOptions(type));
  value_ = at::zeros({batch, value_heads, capacity, value_dim}, at::TensorOptions(type));
  lengths_ = at::zeros({batch}, at::TensorOptions(at::kLong));
}

KeyValueCache::KeyValueCache(at::Tensor key, at::Tensor value, at::Tensor lengths)
    : key_(std::move(key)), value_(std::move(value)), lengths_(std::move(lengths)) {}

void KeyValueCache::check_used(std::string_view call) const {
  if (!key_.defined()) refuse_cache(std::string(call), "a cache in use", "one that was freed");
}

std::int64_t KeyValueCache::longest() const {
  const std::int64_t* lengths = numbers(lengths_);
  return *std::max_element(lengths, lengths + lengths_.numel());
}

void KeyValueCache::append(const at::Tensor& key, const at::Tensor& value, const std::optional<at::Tensor>& added) {
  check_used("append");
  check_part("key", key, key_, -1);
  check_part("value", value, value_, key.size(2));
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
  const auto copy = [&](const at::Tensor& to, const at::Tensor& from, std::int64_t b, std::int64_t entries) {
    to.narrow(0, b, entries)
        .narrow(2, lengths[b], numbers(counts)[b])
        .copy_(from.detach().narrow(0, b, entries).narrow(2, 0, numbers(counts)[b]));
  };
  for (std::int64_t b = 0; b < batch;) {
    // Entries that stand alike are one copy.
    std::int64_t end = b + 1;
    while (end < batch && lengths[end] == lengths[b] && numbers(counts)[end] == numbers(counts)[b]) ++end;
    copy(key_, key, b, end - b);
    copy(value_, value, b, end - b);
    b = end;
  }
  for (std::int64_t b = 0; b < batch; ++b) lengths[b] += numbers(counts)[b];
}

at::Tensor KeyValueCache::attend(const at::Tensor& query, std::string_view mechanism, const AttentionOptions& options,
                                 const std::optional<at::Tensor>& query_lengths) const {
  check_used("attend");
  const std::int64_t batch = key_.size(0);
  if (query.dim() != 4 || query.size(0) != batch)
    refuse_cache("query", "[" + std::to_string(batch) + ", heads, tokens, head_dim]", shape_text(query));
  const at::Tensor counts = query_lengths ? checked_integers("query_lengths", *query_lengths, batch)
                                          : at::full({batch}, query.size(2), lengths_.options());
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t count = numbers(counts)[b], most = std::min(query.size(2), numbers(lengths_)[b]);
    if (count < 0 || count > most)
      refuse_cache((query_lengths ? "query_lengths" : "query length") + of_entry(b),
                   "0 to " + std::to_string(most) + (most < query.size(2) ? " (its tokens)" : " (the queries)"),
                   std::to_string(count));
  }
  const std::int64_t tokens = longest();
  return decode(query, key_.narrow(2, 0, tokens), value_.narrow(2, 0, tokens), lengths_.sub(counts), lengths_.clone(),
                mechanism, options);
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

KeyValueCache KeyValueCache::fork(const at::Tensor& entries) const {
  check_used("fork");
  const at::Tensor chosen = checked_integers("fork", entries, -1);
  for (std::int64_t i = 0; i < chosen.numel(); ++i)
    if (const std::int64_t entry = numbers(chosen)[i]; entry < 0 || entry >= lengths_.numel())
      refuse_cache("fork", "entries 0 to " + std::to_string(lengths_.numel() - 1), std::to_string(entry));
  KeyValueCache copy({.batch = chosen.numel(),
                      .key_heads = key_.size(1),
                      .value_heads = value_.size(1),
                      .capacity = capacity(),
                      .head_dim = key_.size(3),
                      .value_dim = value_.size(3)},
                     key_.scalar_type());
  const at::NoGradGuard no_gradient;
  for (std::int64_t i = 0; i < chosen.numel(); ++i) {
    const std::int64_t entry = numbers(chosen)[i], length = numbers(lengths_)[entry];
    copy.key_[i].narrow(1, 0, length).copy_(key_[entry].narrow(1, 0, length));
    copy.value_[i].narrow(1, 0, length).copy_(value_[entry].narrow(1, 0, length));
    copy.lengths_.mutable_data_ptr<std::int64_t>()[i] = length;
  }
  return copy;
}

void KeyValueCache::free() { key_ = value_ = lengths_ = at::Tensor(); }

namespace {

using Tensors = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

Tensors tensors(const KeyValueCache& cache) { return {cache.key(), cache.value(), cache.lengths()}; }

// The operators have kernels of their own, rather than being compositions, because they read lengths: a graph that is
// compiled calls them as they are.

Tensors make_cache(std::int64_t batch, std::int64_t key_heads, std::int64_t value_heads, std::int64_t capacity,
                   std::int64_t head_dim, std::int64_t value_dim, at::ScalarType type) {
  return tensors(KeyValueCache({batch, key_heads, value_heads, capacity, head_dim, value_dim}, type));
}

void append_cpu(const at::Tensor& cache_key, const at::Tensor& cache_value, const at::Tensor& cache_lengths,
                const at::Tensor& key, const at::Tensor& value, const std::optional<at::Tensor>& added) {
  KeyValueCache(cache_key, cache_value, cache_lengths).append(key, value, added);
  // Autograd notices where what it saved has changed.
  for (const at::Tensor& changed : {cache_key, cache_value, cache_lengths})
    if (!changed.is_inference()) changed.unsafeGetTensorImpl()->bump_version();
}

void append_meta(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                 const std::optional<at::Tensor>&) {}

void crop_cpu(const at::Tensor& key, const at::Tensor& value, const at::Tensor& lengths, const at::Tensor& kept) {
  KeyValueCache(key, value, lengths).crop(kept);
}

void crop_meta(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&) {}

Tensors fork_cpu(const at::Tensor& key, const at::Tensor& value, const at::Tensor& lengths, const at::Tensor& entries) {
  return tensors(KeyValueCache(key, value, lengths).fork(entries));
}

Tensors fork_meta(const at::Tensor& key, const at::Tensor& value, const at::Tensor& lengths,
                  const at::Tensor& entries) {
  const auto with_entries = [&](const at::Tensor& part) {
    auto sizes = part.sym_sizes().vec();
    sizes[0] = entries.sym_numel();
    return part.new_empty_symint(sizes);
  };
  return {with_entries(key), with_entries(value), with_entries(lengths)};
}

at::Tensor attend_cpu(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                      const at::Tensor& lengths, const at::Tensor& query_lengths, std::string_view mechanism,
                      const AttentionOptions& options) {
  return KeyValueCache(key, value, lengths).attend(query, mechanism, options, query_lengths).contiguous();
}

at::Tensor attend_meta(const at::Tensor& query, const at::Tensor&, const at::Tensor& value, const at::Tensor&,
                       const at::Tensor&, std::string_view mechanism, const AttentionOptions&) {
  return query.new_empty_symint({query.sym_size(0), query.sym_size(1) / find_mechanism(mechanism).sub_heads,
                                 query.sym_size(2), value.sym_size(3)});
}

using UnbundledAttend = UnbundledOptions<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
using AttendSignature = decltype(UnbundledAttend::call<attend_cpu>);

bool asks_for_gradient(const at::Tensor& tensor) { return tensor.requires_grad(); }
bool asks_for_gradient(const std::optional<at::Tensor>& tensor) { return tensor && tensor->requires_grad(); }
bool asks_for_gradient(at::TensorList tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const at::Tensor& tensor) { return tensor.requires_grad(); });
}
template <class Other>
bool asks_for_gradient(const Other&) {
  return false;
}

// Gradients reach queries, biases and parameters through the operators that attending is made of; where none is needed
// it is one call.
template <class Signature>
struct AttendUnderAutograd;
template <class... Arguments>
struct AttendUnderAutograd<at::Tensor(Arguments...)> {
  static at::Tensor call(Arguments... arguments) {
    if (at::GradMode::is_enabled() && (asks_for_gradient(arguments) || ...))
      return UnbundledAttend::call<attend_cpu>(arguments...);
    static const auto handle =
        c10::Dispatcher::singleton().findSchemaOrThrow("cogwheel::cache_attend", "").typed<AttendSignature>();
    const at::AutoDispatchBelowADInplaceOrView below;
    return handle.call(arguments...);
  }
};

}  // namespace

TORCH_LIBRARY_FRAGMENT(cogwheel, library) {
  library.def(
      "make_cache(int batch, int key_heads, int value_heads, int capacity, int head_dim, int value_dim, ScalarType "
      "dtype) -> (Tensor key, Tensor value, Tensor lengths)",
      make_cache);
  library.def(
      "cache_append(Tensor(a!) cache_key, Tensor(b!) cache_value, Tensor(c!) cache_lengths, Tensor key, Tensor value, "
      "Tensor? added) -> ()");
  library.def("cache_crop(Tensor key, Tensor value, Tensor(a!) lengths, Tensor kept) -> ()");
  library.def(
      "cache_fork(Tensor key, Tensor value, Tensor lengths, Tensor entries) -> (Tensor key, Tensor value, Tensor "
      "lengths)");
}

TORCH_LIBRARY_IMPL(cogwheel, CPU, library) {
  library.impl("cache_append", append_cpu);
  library.impl("cache_crop", crop_cpu);
  library.impl("cache_fork", fork_cpu);
  library.impl("cache_attend", UnbundledAttend::call<attend_cpu>);
}

TORCH_LIBRARY_IMPL(cogwheel, Autograd, library) {
  library.impl("cache_attend", AttendUnderAutograd<AttendSignature>::call);
}

TORCH_LIBRARY_IMPL(cogwheel, Meta, library) {
  library.impl("cache_append", append_meta);
  library.impl("cache_crop", crop_meta);
  library.impl("cache_fork", fork_meta);
  library.impl("cache_attend", UnbundledAttend::call<attend_meta>);
}

}  // namespace cogwheel
