// Tokens that a language model gets for the way out.
#pragma once
#include <cstdint>

#include "cogwheel/interchange/architecture.h"

namespace cogwheel::interchange {

// Rows of the embedding and an untied head, and its biases, as ExportedTokenizer::added_rows has them.
void add_rows(ModelToWrite& model, std::int64_t count);

}  // namespace cogwheel::interchange
