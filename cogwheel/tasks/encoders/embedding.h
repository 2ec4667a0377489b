// What an encoder makes of texts, as tensors in a file.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "cogwheel/runs/run_folder.h"

namespace cogwheel::tasks::encoders {

struct EmbeddingRequest {
  std::string prompt = {};           // a text,
  std::filesystem::path input = {};  // or a file of texts
  std::int64_t tokens = 0;           // of each text, [CLS] and [SEP] included; longer ones are cut; 0: of the longest
  std::function<void(const std::string&)> warn = [](const std::string&) {};
};

// A .safetensors file with `contexts` [texts, tokens, width], the vector of each token and 0 beyond the end of a text,
// `vectors` [texts, width], those of the first tokens, and `lengths` [texts]. Throws what texts_for throws
// (sentence_data.h), Error for a run of another task and for texts that are not UTF-8.
void write_embeddings(const runs::RunFolder& folder, const EmbeddingRequest& request, const std::filesystem::path& out);

}  // namespace cogwheel::tasks::encoders
