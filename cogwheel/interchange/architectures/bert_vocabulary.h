// The vocabulary of a BERT, as Hugging Face's tokenizers keep it.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "cogwheel/runs/run_folder.h"
#include "cogwheel/text/word_piece.h"

namespace cogwheel::interchange {

// vocab.txt, with what tokenizer_config.json says of it, or else tokenizer.json. Throws Error where there is neither,
// one cuts text in another way than WordPieceTokenizer, or has another number of pieces than `vocabulary`.
std::shared_ptr<const text::WordPieceTokenizer> read_bert_vocabulary(const std::filesystem::path& folder,
                                                                     std::int64_t vocabulary);

// vocab.txt and tokenizer_config.json; `context`: the longest sequence of the model.
std::vector<runs::RunFile> bert_vocabulary_files(const text::WordPieceTokenizer& tokenizer, std::int64_t context);

}  // namespace cogwheel::interchange
