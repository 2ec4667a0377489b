#include "cogwheel/tasks/language/language_model_form.h"

#include <algorithm>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/nearest_names.h"

namespace cogwheel::tasks::language {

std::vector<std::string> form_names() { return {"gpt", "llama"}; }

void set_form(LanguageModelOptions& options, std::string_view name, std::string_view what) {
  const auto names = form_names();
  if (std::find(names.begin(), names.end(), name) == names.end())
    throw UsageError(expected_got(what, expected_names(name, names), name));
  const bool llama = name == "llama";
  options.activation = llama ? "swiglu" : "gelu";
  options.norm = llama ? "rms" : "layer";
  options.position = llama ? "rotary" : "learned";
  options.tied_head = !llama;
  options.bias = false;
}

}  // namespace cogwheel::tasks::language
