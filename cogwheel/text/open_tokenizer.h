// Any tokenizer file that somebody names.
#pragma once
#include <filesystem>
#include <memory>

#include "cogwheel/text/tokenizer.h"

namespace cogwheel::text {

// The tokenizer.json of a run. Throws Error, one line that names the file, where it is none.
std::shared_ptr<const Tokenizer> open_tokenizer(const std::filesystem::path& path);

}  // namespace cogwheel::text
