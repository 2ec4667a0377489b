// A form is a named set of options of a language model:
//
//   gpt    learned positions, LayerNorm, GELU, tied head, no biases (Radford et al. 2019; as in nanoGPT)
//   llama  rotary positions of interleaved components, RMSNorm, SwiGLU, untied head, no biases (Touvron et al. 2023)
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/tasks/language/language_model_options.h"

namespace cogwheel::tasks::language {

std::vector<std::string> form_names();
// Sets the options of the form and leaves the others unchanged. Throws UsageError that names `what`.
void set_form(LanguageModelOptions& options, std::string_view name, std::string_view what = "model.form");

}  // namespace cogwheel::tasks::language
