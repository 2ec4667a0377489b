#include "cogwheel/runs/named_pass.h"

#include "cogwheel/core/error.h"

namespace cogwheel::runs {

at::Tensor optional_input(const PassInputs& inputs, const char* name) {
  const auto found = inputs.find(name);
  return found == inputs.end() ? at::Tensor() : found->value();
}

at::Tensor needed_input(const PassInputs& inputs, const char* name) {
  at::Tensor found = optional_input(inputs, name);
  if (!found.defined()) throw UsageError(expected_got(name, "a tensor", "none"));
  return found;
}

at::Tensor optional_whole_input(const PassInputs& inputs, const char* name) {
  at::Tensor found = optional_input(inputs, name);
  if (found.defined() && found.scalar_type() != at::kLong)
    throw UsageError(expected_got(name, "int64", at::toString(found.scalar_type())));
  return found;
}

at::Tensor needed_whole_input(const PassInputs& inputs, const char* name) {
  needed_input(inputs, name);
  return optional_whole_input(inputs, name);
}

}  // namespace cogwheel::runs
