// Prompts that name an indirect object (tasks/synthetic/ioi_data.h), as measures of heads take them.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "cogwheel/interpret/prompts.h"
#include "cogwheel/tasks/synthetic/ioi_data.h"

namespace cogwheel::interpret {

struct IoiPrompts {
  std::vector<tasks::synthetic::IoiPrompt> prompts;
  Prompts clean;         // answer: the indirect object; foil: the subject
  at::Tensor corrupted;  // tokens with three other names in the places of the names
};

// Of pairs of names that training never shows; every other prompt has an opening. `seed` decides all that is drawn.
IoiPrompts draw_ioi_prompts(std::int64_t count, std::uint64_t seed);

}  // namespace cogwheel::interpret
