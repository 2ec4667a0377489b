#include "cogwheel/nn/weights/number_type.h"

#include "cogwheel/core/error.h"

namespace cogwheel::nn {

std::string_view name_of(NumberType type) {
  switch (type) {
    case NumberType::float32:
      return "fp32";
    case NumberType::bfloat16:
      return "bf16";
    case NumberType::int8:
      return "int8";
  }
  return "";
}

NumberType narrow_type(std::string_view what, const std::string& name) {
  if (name.empty()) return NumberType::float32;
  for (const NumberType type : {NumberType::bfloat16, NumberType::int8})
    if (name == name_of(type)) return type;
  throw UsageError(expected_got(std::string(what), "bf16 or int8", name));
}

}  // namespace cogwheel::nn
