// Byte-pair vocabularies as others publish them.
#pragma once
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "cogwheel/text/byte_pairs/byte_pair_vocabulary.h"

namespace cogwheel::text {

// A tokenizer.json of Hugging Face's tokenizers. Throws Error that names `what` and the part of it for one that is not
// of GPT-2's, Llama 3's, Qwen 2's or SmolLM's kind: another model than byte-level BPE, a normalizer other than NFC,
// words by another expression, added tokens that take spaces with them. What merged_tokens checks is not checked.
BytePairVocabulary hugging_face_byte_pairs(const nlohmann::json& json, std::string_view what);

// The regular expression of these words, as such files have it; of gpt2_digits, that of gpt2.
std::string_view word_expression(WordPattern pattern);

// GPT-2's vocab.json and merges.txt. A token that is no byte and that no merge makes is special. Throws Error that
// names the file, as above.
BytePairVocabulary vocab_and_merges(const std::filesystem::path& vocab, const std::filesystem::path& merges);

}  // namespace cogwheel::text
