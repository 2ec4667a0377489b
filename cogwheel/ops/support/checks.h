// Checks users' arguments, once, before any kernel: "attention: <argument>: expected …, got …". Operators of
// layers check their own arguments, with the same messages.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>

namespace cogwheel::ops {

// Throws c10::ValueError with the message "<what>: expected …, got …", where `what` names the operator.
[[noreturn]] void refuse_argument(std::string_view what, const std::string& expected, const std::string& got);

// For a tensor on another device, or of another dtype, than `other`, an argument that the message calls `name`.
[[noreturn]] void refuse_device(std::string_view what, const at::Tensor& tensor, const at::Tensor& other,
                                std::string_view name);
[[noreturn]] void refuse_dtype(std::string_view what, const at::Tensor& tensor, const at::Tensor& other,
                               std::string_view name);

// Throws unless the tensor is dense and of float32, float64, bfloat16 or float16.
void check_numbers(std::string_view operation, std::string_view argument, const at::Tensor& tensor);

// refuse_argument for an argument of attention.
[[noreturn]] void refuse(std::string_view argument, const std::string& expected, const std::string& got);

// Ranks, dtypes, devices and sizes of an attention call with `sub_heads` query and key heads to a head, whose queries
// and keys have one width or not.
void check_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, std::int64_t sub_heads,
                     bool one_width = true);

// The same for values of any width, also of 0.
void check_heads_of_values(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                           std::int64_t sub_heads, bool one_width = true);

// The same without values, for attention_weights.
void check_query_key(const at::Tensor& query, const at::Tensor& key, std::int64_t sub_heads, bool one_width = true);

// The widths that kernels have.
void check_head_dim(std::string_view argument, const c10::SymInt& width);

// The compute dtype: float32 for the 16-bit types, whose elements are widened as they are read, else the type itself.
at::ScalarType computed_type(const at::Tensor& tensor);

// float64, or the widest type of a device that has no float64.
at::ScalarType widest_type(const at::Tensor& tensor);

// Any other floating-point tensor has the query's device, and its dtype or its compute dtype.
void check_like(std::string_view argument, const at::Tensor& tensor, const at::Tensor& query);
void check_device(std::string_view argument, const at::Tensor& tensor, const at::Tensor& query);

// The same for any operator, whose tensors are on the device of its `x`.
void check_device_of_x(std::string_view what, const at::Tensor& tensor, const at::Tensor& x);

// The same for a tensor that has the dtype of `x` too, and these sizes.
void check_beside_x(const std::string& what, const at::Tensor& tensor, const at::Tensor& x, c10::SymIntArrayRef sizes);

// The numbers of key_lengths, checked where the host can read them without waiting for a device. Elsewhere lengths
// beyond the keys count as if they ended there.
void check_lengths(const at::Tensor& lengths, std::int64_t keys);

// "5", and "[2, 4, 5]".
std::string size_text(const c10::SymInt& size);
std::string shape_text(c10::SymIntArrayRef sizes);
std::string shape_text(const at::Tensor& tensor);

}  // namespace cogwheel::ops
