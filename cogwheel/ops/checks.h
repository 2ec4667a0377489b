// What users pass is checked here, once, before any kernel: "attention: <argument>: expected …, got …".
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>

namespace cogwheel {

// Throws c10::ValueError with the one form of message.
[[noreturn]] void refuse(std::string_view argument, const std::string& expected, const std::string& got);

// Ranks, dtypes, devices and sizes of an attention call with `sub_heads` query and key heads to a head.
void check_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, std::int64_t sub_heads);

// The same without values, for attention_weights.
void check_query_key(const at::Tensor& query, const at::Tensor& key, std::int64_t sub_heads);

std::string shape_text(const at::Tensor& tensor);

}  // namespace cogwheel
