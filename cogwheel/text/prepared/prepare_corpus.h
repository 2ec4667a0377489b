// Documents of files to a corpus on disk, as tokens: shards and an index (corpus_index.h).
#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "cogwheel/core/range.h"
#include "cogwheel/text/prepared/corpus_index.h"
#include "cogwheel/text/tokenizer.h"

namespace cogwheel::text {

inline constexpr Range<double> held_out_share_range{0, 1, false, true};
inline constexpr Range<std::int64_t> shard_tokens_range{1, std::int64_t{1} << 40};
inline constexpr Range<int> preparing_threads_range{1, 1024};

struct PreparationProgress {
  std::int64_t bytes = 0, bytes_in_all = 0;  // of the files as they lie there
  DocumentsAndTokens all;                    // written
};

struct CorpusRequest {
  std::vector<std::filesystem::path> paths;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::filesystem::path folder;
  CorpusOptions options;
  int threads = 1;
  std::function<bool(const PreparationProgress&)> go_on = {};  // called about once a megabyte; false stops
};

struct PreparedFolder {
  CorpusIndex index = {};
  bool was_there = false;         // nothing was to do
  std::int64_t gone_on_from = 0;  // shards that an earlier call had left
};

// Every byte of the folder follows from the options, the tokenizer and the sources, whatever the threads and however
// often it was stopped; files have their names only once they are whole and synced. A document is first what the option
// for broken UTF-8 makes of it; its SHA-256 decides, independently of all others, whether it is held out. Of equal
// documents the first stays; empty ones are left out. In the corpus each has the tokenizer's beginning and end of a
// document around it, where that has them. Memory holds 16 bytes of hash for each document (SeenDocuments), the ends of
// documents and the held-out tokens of one shard, and some megabytes and three documents for each thread.
//
// Throws UsageError for options out of range and a folder that holds something else, Error for the first source or
// document that is refused, with whole shards before it kept; Interrupted where it is told to stop.
PreparedFolder prepare_corpus(const CorpusRequest& request);

// Whether a document is held out; `hash` of its text.
bool is_held_out(const std::array<std::uint8_t, 32>& hash, double share);

// What the index records of a tokenizer.
TokenizerRecord tokenizer_record(const Tokenizer& tokenizer);

}  // namespace cogwheel::text
