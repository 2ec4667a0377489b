// What an encoder makes of texts, as tensors in a file.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "cogwheel/storage/run_folder.h"

namespace cogwheel {

struct EmbeddingRequest {
  std::vector<std::string> texts;
  std::int64_t tokens = 0;  // of each text, [CLS] and [SEP] included; longer ones are cut; 0: of the longest
  std::function<void(const std::string&)> warn = [](const std::string&) {};
};

// A .safetensors file with `contexts` [texts, tokens, width], the vector of each token and 0 beyond the end of a text,
// `vectors` [texts, width], those of the first tokens, and `lengths` [texts]. Throws Error for a run of another task
// and for texts that are not UTF-8, UsageError without texts.
void write_embeddings(const RunFolder& folder, const EmbeddingRequest& request, const std::filesystem::path& out);

}  // namespace cogwheel
