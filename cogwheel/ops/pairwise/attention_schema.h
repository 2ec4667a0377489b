// The arguments of an `attention` call, as the schemas and the dispatcher of its operators declare them.
#pragma once
#include "cogwheel/ops/pairwise/attention.h"
#include "cogwheel/ops/support/bundle.h"

namespace cogwheel::ops {

// Throws ValueError unless there are as many names as tensors.
MechanismParameters named_parameters(at::TensorList tensors, const std::vector<std::string>& names);

template <>
struct Argument<MechanismParameters> {
  using Types = TypeList<at::TensorList, std::vector<std::string>>;
  template <std::size_t first, class Given>
  static MechanismParameters made_of(const Given& given) {
    return named_parameters(std::get<first>(given), std::get<first + 1>(given));
  }
  static std::string described(const char*, const MechanismParameters&) {
    return "Tensor[] parameters, str[] parameter_names";
  }
};

template <>
struct Bundle<AttentionOptions> {
  static constexpr auto members = std::tuple{
#define ATTENTION_OPTION(type, name, initial) Member{#name, &AttentionOptions::name},
#include "cogwheel/ops/pairwise/attention_options.def"
      Member{"parameters", &AttentionOptions::parameters}};
};

// "name(leading, str mechanism, *, …options) -> result", the schema of an operator that attends.
inline std::string attention_schema(const std::string& name, const std::string& leading, const std::string& result) {
  return name + "(" + leading + ", str mechanism, *, " + schema_of<AttentionOptions>() + ") -> " + result;
}

}  // namespace cogwheel::ops
