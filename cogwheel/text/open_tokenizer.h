// Any tokenizer file that somebody names.
#pragma once
#include <filesystem>
#include <memory>

#include "cogwheel/text/tokenizer.h"

namespace cogwheel::text {

// By what the path names:
//
//   tokenizer.json, or another name   of a run; of Hugging Face's tokenizers: byte-level BPE (published_byte_pairs.h),
//                                     BPE of SentencePiece's pieces (piece_pairs/), what cogwheel exports
//   vocab.json or merges.txt          GPT-2's, each beside the other
//   *.model                           of SentencePiece
//   a folder                          the first of these that it has; *.model before a tokenizer.json made of it
//
// Throws Error, one line that names the file and what in it is of another kind.
std::shared_ptr<const Tokenizer> open_tokenizer(const std::filesystem::path& path);

}  // namespace cogwheel::text
