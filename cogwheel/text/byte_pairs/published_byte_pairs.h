// Byte-pair vocabularies as others publish them.
#pragma once
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "cogwheel/text/byte_pairs/byte_pair_vocabulary.h"

namespace cogwheel::text {

// A tokenizer.json of Hugging Face's tokenizers. Throws Error that names `what` and the part of it for one that is not
// of GPT-2's or Llama 3's kind: another model than byte-level BPE, a normalizer, words by another expression, tokens
// beside the special ones that are looked for in texts. What merged_tokens checks is not checked.
BytePairVocabulary hugging_face_byte_pairs(const nlohmann::json& json, std::string_view what);

// GPT-2's vocab.json and merges.txt. A token that is no byte and that no merge makes is special. Throws Error that
// names the file, as above.
BytePairVocabulary vocab_and_merges(const std::filesystem::path& vocab, const std::filesystem::path& merges);

}  // namespace cogwheel::text
