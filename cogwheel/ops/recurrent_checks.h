// The checks of a recurrent call's tensors, each with the one form of message.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <string_view>

#include "cogwheel/mechanisms/recurrent_contract.h"

namespace cogwheel {

[[noreturn]] void refuse_recurrent(std::string_view argument, const std::string& expected, const std::string& got);

// Throws where there is no such mechanism, naming those that are near, or where attention takes it.
const RecurrentLaw& checked_recurrent_law(std::string_view mechanism);

// Ranks, dtypes, devices and sizes. The gate is there if and only if the law has one.
void check_recurrent(const RecurrentLaw& law, const at::Tensor& query, const std::optional<at::Tensor>& key,
                     const at::Tensor& value, const std::optional<at::Tensor>& gate);
void check_recurrent_state(std::string_view name, const at::Tensor& state, const at::Tensor& query,
                           c10::SymIntArrayRef sizes);

// That every value of a tensor on the host is from `least` to `most`, and none a NaN.
void check_values_within(std::string_view name, const at::Tensor& tensor, double least, double most,
                         const std::string& expected);

// The values of a gate that lies on the host.
void check_gate_values(const RecurrentLaw& law, const at::Tensor& gate);

}  // namespace cogwheel
