#include "cogwheel/text/open_tokenizer.h"

namespace cogwheel::text {

std::shared_ptr<const Tokenizer> open_tokenizer(const std::filesystem::path& path) { return load_tokenizer(path); }

}  // namespace cogwheel::text
