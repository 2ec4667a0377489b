// Tokenizers of language models: from the folders of Hugging Face, and as its `tokenizers` read them.
// docs/interchange.md says what is exact.
#pragma once
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/core/token.h"
#include "cogwheel/runs/run_folder.h"
#include "cogwheel/text/tokenizer.h"

namespace cogwheel::interchange {

struct ImportedTokenizer {
  std::string kind = {};                  // Tokenizer::kind; empty where there is none
  std::vector<runs::RunFile> files = {};  // of the run: its tokenizer, and a chat template; none where there is none
  std::vector<std::string> notes = {};    // in a line each
};

// Of a folder with tokenizer.json, tokenizer.model, or vocab.json and merges.txt. What ends a text is eos_token_id of
// generation_config.json, else of config.json, else eos_token of tokenizer_config.json, else what the tokenizer says;
// what begins one is what its post-processor puts there, and of a tokenizer.model its <s>, unless add_bos_token is
// false. `vocabulary`: the rows of the embedding, of which there may be more than tokens. Throws Error for more tokens
// than rows, a tokenizer of another kind, by its name, and files that are damaged. The keys of config.json that are
// read here are bos_token_id, eos_token_id and pad_token_id: the architecture skips them.
ImportedTokenizer read_language_tokenizer(const std::filesystem::path& folder, std::int64_t vocabulary);

// The names of all files that an export of a tokenizer may have.
inline const std::vector<std::string> exported_tokenizer_files{"tokenizer.json", "tokenizer_config.json",
                                                               "generation_config.json", "tokenizer.model"};

struct ExportedTokenizer {
  // Some of exported_tokenizer_files; without a tokenizer, generation_config.json alone. A chat template is in
  // tokenizer_config.json.
  std::vector<runs::RunFile> files = {};
  // Rows that the embedding and an untied head need beside those that the model has, 0 or 1: for a token that begins
  // and ends texts where there is none and every row has a token. Each is the mean of the model's rows, and its bias,
  // where the head has one, is -10,000. So its logit is the mean of the logits, and its probability at most the
  // geometric mean of all, 1 / (rows + 1) at most and in a trained model far less; zeros would have no such bound.
  std::int64_t added_rows = 0;
  // bos_token_id and eos_token_id of config.json; null where `cogwheel sample` begins or ends no text by a token.
  std::optional<Token> beginning = {}, end = {};
  std::vector<std::string> notes = {};
};

// `run`: the folder of a run; `vocabulary`, `context`: of its model. AutoTokenizer reads the files as a
// PreTrainedTokenizerFast with the same tokens of every text, and the same text of them. Throws Error for a tokenizer
// that `tokenizers` cannot imitate (tokenizers_json.h).
ExportedTokenizer language_tokenizer_files(const std::filesystem::path& run, std::int64_t vocabulary,
                                           std::int64_t context);
// The same of a tokenizer; `what` names it. `chat_template`: as tokenizer_config.json has it; null: none.
ExportedTokenizer exported_tokenizer(const text::Tokenizer& tokenizer, std::string_view what, std::int64_t vocabulary,
                                     std::int64_t context, const nlohmann::json& chat_template = {});

}  // namespace cogwheel::interchange
