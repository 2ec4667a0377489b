// Keys and values of the tokens so far, for decoding token by token. Addresses are reserved once, for the capacity, and
// memory is used only as it is written to. Keys lie as the device's engine reads them (ops/support/key_panels.h).
//
// Batch entries may differ in length. A refused call leaves the cache unchanged.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "cogwheel/ops/pairwise/attention.h"

namespace cogwheel::ops {

struct KeyValueCacheSizes {
  std::int64_t batch = 1;
  std::int64_t key_heads = 1;
  std::optional<std::int64_t> value_heads = {};  // defaults to key_heads; half of it for a difference of two maps
  std::int64_t capacity = 0;                     // tokens of an entry, at most
  std::int64_t head_dim = 0;
  std::optional<std::int64_t> value_dim = {};  // unless given as head_dim
};

class KeyValueCache {
 public:
  // Empty, for queries, keys and values of `type` on `device`; one of int8 only keeps them, and its owner widens them
  // (ops/cache/decode.h). Throws c10::ValueError for sizes below 1.
  KeyValueCache(const KeyValueCacheSizes& sizes, at::ScalarType type, at::Device device = at::kCPU);
  // From the tensors of another cache, which it shares: key [B, Hk, capacity, D] or in panels, value [B, Hv, capacity,
  // Dv], lengths [B] int64 on the host, where a length is read without waiting for a device.
  KeyValueCache(at::Tensor key, at::Tensor value, at::Tensor lengths);

  // Appends N tokens to each entry, key [B, Hk, N, D] and value [B, Hv, N, Dv], or just the first added[b] to entry b.
  // Gradients stop here. Throws c10::ValueError where an entry would outgrow the capacity, or shapes or types do not
  // fit.
  void append(const at::Tensor& key, const at::Tensor& value, const std::optional<at::Tensor>& added = {});

  // Attention of the newest tokens, query [B, H, N, D], over all that they see: the last N tokens of each entry, or of
  // entry b the last query_lengths[b], in the first rows; the other rows are unspecified. → [B, H, N, Dv]
  // `options` as `attention` takes them, but always causal, with biases [.., .., N, longest()]. Throws c10::ValueError
  // for more queries than tokens, and what `decode` refuses.
  at::Tensor attend(const at::Tensor& query, std::string_view mechanism = "softmax",
                    const AttentionOptions& options = {}, const std::optional<at::Tensor>& query_lengths = {}) const;

  // Forgets the newest tokens: entry b keeps its first kept[b]. Throws c10::ValueError for more than it has.
  void crop(const at::Tensor& kept);

  // Forgets tokens in the middle, first … first + count − 1 of each entry: those after them move up. Throws
  // c10::ValueError where an entry has fewer.
  void forget(std::int64_t first, std::int64_t count);

  // An independent cache with copies of the given entries, [B'] int64, in that order; an entry may be given several
  // times, as in beam search. Throws c10::ValueError for entries that do not exist.
  KeyValueCache fork(const at::Tensor& entries) const;

  // Keys first … first + count − 1 of every entry, [B, Hk, count, D]: a copy; and others in their place. Where an entry
  // is shorter, numbers are unspecified.
  at::Tensor keys(std::int64_t first, std::int64_t count) const;
  void write_keys_at(std::int64_t first, const at::Tensor& keys);

  // Frees the memory. Every call but `free` throws c10::ValueError from then on.
  void free();

  const at::Tensor& key() const { return key_; }  // in rows or in panels
  const at::Tensor& value() const { return value_; }
  const at::Tensor& lengths() const { return lengths_; }  // [B] int64
  std::int64_t capacity() const { return value_.size(2); }
  std::int64_t head_dim() const;
  std::int64_t longest() const;  // length of the longest entry

 private:
  void check_used(std::string_view call) const;

  at::Tensor key_, value_, lengths_;
};

}  // namespace cogwheel::ops
