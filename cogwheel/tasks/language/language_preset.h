// Presets of language models.
#pragma once
#include <cstdint>
#include <string_view>

#include "cogwheel/runs/task_entry.h"

namespace cogwheel::tasks::language {

// Held-out tokens, the first of them, that tell models apart.
inline constexpr std::int64_t evaluated_tokens = 65'536;

// One of this size.
runs::Preset language_preset(std::string_view name, std::string_view summary, std::int64_t layers, std::int64_t heads,
                             std::int64_t width, std::int64_t context, std::int64_t batch);

}  // namespace cogwheel::tasks::language
