// Keys as tensors in panels, whose layout attention/kernels/key_panels.h says: [B, Hk, panels, D / group, 64, group].
// Caches keep them so where the device's engine reads them; whoever else needs keys makes rows of them.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace cogwheel::ops {

inline bool are_panels(const at::Tensor& key) { return key.dim() == 6; }

// The sizes of memory for `capacity` keys of each head.
std::vector<std::int64_t> sizes_of_panels(std::int64_t batch, std::int64_t heads, std::int64_t capacity,
                                          std::int64_t head_dim, at::ScalarType type);

// Of keys in rows or in panels: their width, and as many of the first ones as `count`, at least; a view.
c10::SymInt head_dim_of(const at::Tensor& key);
at::Tensor first_keys(const at::Tensor& key, const c10::SymInt& count);

// As kernels read them: the numbers of a head lie one after the other; entries and heads may lie anywhere.
at::Tensor with_contiguous_panels(const at::Tensor& panels);

// [B, Hk, count, D], for its sizes and type: its numbers mean nothing and take the memory of one row.
at::Tensor sizes_of_rows(const at::Tensor& panels, const c10::SymInt& count);

// A copy of the first keys in rows, [B, Hk, count, D].
at::Tensor rows_of_panels(const at::Tensor& panels, const c10::SymInt& count);

// Keys first … first + count − 1 of a cache, in rows or in panels: a copy [B, Hk, count, D]; and back.
at::Tensor read_keys(const at::Tensor& key, std::int64_t first, std::int64_t count);
void write_keys(const at::Tensor& key, std::int64_t first, const at::Tensor& rows);

}  // namespace cogwheel::ops
