// The checks of a recurrent call's tensors, each with the one form of message.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cogwheel/attention/mechanisms/recurrent_contract.h"

namespace cogwheel::ops {

inline constexpr std::int64_t max_key_width = 256;

[[noreturn]] void refuse_recurrent(std::string_view argument, const std::string& expected, const std::string& got);

// `got`: "second ones" or "a tangent".
[[noreturn]] void refuse_recurrent_derivative(const char* got);

// Throws where there is no such mechanism, naming those that are near, or where attention takes it.
const RecurrentLaw& checked_recurrent_law(std::string_view mechanism);

// Ranks, dtypes, devices and sizes.
void check_recurrent(const std::optional<at::Tensor>& query, const std::optional<at::Tensor>& key,
                     const at::Tensor& value);
void check_head_dim(const at::Tensor& query);

// Of a law's own tensor or one that belongs to a walk: its dtype, that of query or the one that query is computed in;
// its device; and its dimensions (RecurrentParameter::axes). `slots` is the size of the axes S, which the first such
// tensor decides. `like` is what the message calls the tensor that stands for the query.
void check_recurrent_axes(std::string_view name, const at::Tensor& tensor, const at::Tensor& query,
                          const at::Tensor& value, std::string_view axes,
                          std::optional<c10::SymInt> slots = std::nullopt, std::string_view like = "query");

// The alternative with that many dimensions, or the first where there is none.
std::string_view chosen_axes(std::string_view axes, std::int64_t dimensions);

// Throws unless the tensor is float32 or float64.
void check_computed(std::string_view name, const at::Tensor& tensor);

void check_recurrent_state(std::string_view name, const at::Tensor& state, const at::Tensor& query,
                           c10::SymIntArrayRef sizes);

// cu_seqlens, and its numbers where there is data.
void check_sequences(const at::Tensor& cu_seqlens, const at::Tensor& query);
// These alone, of a tensor on the host.
void check_sequence_bounds(const at::Tensor& cu_seqlens, std::int64_t tokens);

// The values of a tensor, unless it lies elsewhere or has no data, as while a graph is being compiled.
void check_recurrent_values(std::string_view name, const at::Tensor& tensor, Values values);

}  // namespace cogwheel::ops
