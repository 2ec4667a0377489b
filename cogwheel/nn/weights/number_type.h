// The types in which a model that only generates may keep its weights, and keys and values.
#pragma once
#include <string>
#include <string_view>

namespace cogwheel::nn {

enum class NumberType { float32, bfloat16, int8 };

// As options name it: "fp32", "bf16", "int8".
std::string_view name_of(NumberType type);
// Of the option `what`: bf16 or int8, or float32 where the name is empty. Throws UsageError for others.
NumberType narrow_type(std::string_view what, const std::string& name);

}  // namespace cogwheel::nn
