// The operators beneath `attention`: one row map of the catalogue, checked shapes, autograd.
//
//   cogwheel::pairwise(query, key, value, mechanism, scale, mask, sub_heads) → (output, shift, mass)
//   cogwheel::pairwise_backward(…) → (query_gradient, key_gradient, value_gradient)
//
// query [B, H, N, D], key [B, Hv·sub_heads, M, D], value [B, Hv, M, Dv]; shift and mass are the rows' totals [B, H, N],
// which backward needs and which have no gradient of their own.
#pragma once
#include <ATen/core/Tensor.h>

#include <string_view>
#include <tuple>

#include "cogwheel/core/visibility.h"

namespace cogwheel {

// How `mask` names what a query sees.
namespace mask {
inline constexpr std::string_view full = "full";
inline constexpr std::string_view causal = "causal";  // the last query sees the last key
inline constexpr std::string_view causal_first =
    "causal_first";  // the first query sees just the first key, as in torch
}  // namespace mask

// Throws ValueError for any other name.
Visibility visibility_of(std::string_view mask, std::int64_t queries, std::int64_t keys);

using PairwiseOutputs = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// Dispatches cogwheel::pairwise.
PairwiseOutputs pairwise(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                         std::string_view mechanism, double scale, std::string_view mask, std::int64_t sub_heads);

// Dispatches cogwheel::pairwise_backward.
PairwiseOutputs pairwise_backward(const at::Tensor& gradient, const at::Tensor& query, const at::Tensor& key,
                                  const at::Tensor& value, const at::Tensor& output, const at::Tensor& shift,
                                  const at::Tensor& mass, std::string_view mechanism, double scale,
                                  std::string_view mask, std::int64_t sub_heads);

}  // namespace cogwheel
