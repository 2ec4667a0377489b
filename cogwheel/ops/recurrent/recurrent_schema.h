// The arguments of a `recurrent` call, as the schemas and the dispatcher of its operators declare them.
#pragma once
#include <string>
#include <vector>

#include "cogwheel/ops/pairwise/attention_schema.h"
#include "cogwheel/ops/recurrent/recurrent.h"

namespace cogwheel::ops {

template <>
struct Argument<std::vector<at::Tensor>> {
  using Types = TypeList<at::TensorList>;
  template <std::size_t first, class Given>
  static std::vector<at::Tensor> made_of(const Given& given) {
    return std::get<first>(given).vec();
  }
  static std::string described(const char* name, const std::vector<at::Tensor>&) {
    return "Tensor[] " + std::string(name);
  }
};

template <>
struct Bundle<RecurrentOptions> {
  static constexpr std::tuple members{
      Member{"causal", &RecurrentOptions::causal},         Member{"scale", &RecurrentOptions::scale},
      Member{"cu_seqlens", &RecurrentOptions::cu_seqlens}, Member{"initial_state", &RecurrentOptions::initial_state},
      Member{"parameters", &RecurrentOptions::parameters}, Member{"feature_map", &RecurrentOptions::feature_map},
      Member{"normalize", &RecurrentOptions::normalize}};
};

// "name(leading, str mechanism, *, …options) -> result", the schema of an operator of the family.
inline std::string recurrent_schema(const std::string& name, const std::string& leading, const std::string& result) {
  return name + "(" + leading + ", str mechanism, *, " + schema_of<RecurrentOptions>() + ") -> " + result;
}

}  // namespace cogwheel::ops
