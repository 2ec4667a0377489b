// A prepared corpus to read, at any place: opening it reads hardly anything, and processes that read the same one share
// the memory of the system.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cogwheel/core/files/random_access_file.h"
#include "cogwheel/text/prepared/corpus_index.h"
#include "cogwheel/text/tokenizer.h"

namespace cogwheel::text {

// The documents of one side, one after another.
class CorpusPart {
 public:
  std::int64_t tokens() const { return tokens_; }
  std::int64_t documents() const { return documents_; }

  // Each throws Error that names the file where what it reads is not there or is not what was written.

  // Tokens from place `first` on, all within the vocabulary.
  void read(std::int64_t first, std::span<std::int64_t> tokens) const;
  // The places after the last token of each document that ends in (first, last], in order.
  std::vector<std::int64_t> ends_within(std::int64_t first, std::int64_t last) const;
  // The place of a document's first token, and the place after its last one.
  std::int64_t document_begin(std::int64_t document) const;
  std::int64_t document_end(std::int64_t document) const;
  // The same ends of the documents from `first` on, many in one call to the system.
  void read_document_ends(std::int64_t first, std::span<std::int64_t> ends) const;

 private:
  friend class PreparedCorpus;
  struct Segment {
    std::shared_ptr<const RandomAccessFile> file;
    std::int64_t ids, ends;  // places in it
    std::int64_t tokens, documents, first_token, first_document;
  };
  void add(const std::shared_ptr<const RandomAccessFile>& file, ShardRecord::Places places, DocumentsAndTokens counts);
  const Segment& segment_with_token(std::int64_t place) const;
  const Segment& segment_with_document(std::int64_t document) const;
  static std::int64_t document_at(const Segment& segment, std::int64_t place);
  static void read_ends(const Segment& segment, std::int64_t first, std::span<std::int64_t> ends);

  std::vector<Segment> segments_;  // none of them empty
  std::int64_t tokens_ = 0, documents_ = 0, token_bytes_ = 0, vocabulary_ = 0;
};

class PreparedCorpus {
 public:
  // Throws Error in one line that names what is wrong: no corpus or an unfinished one, an index of another version or
  // damaged, a shard that is missing or has another size, another tokenizer than the index says.
  explicit PreparedCorpus(std::filesystem::path folder);
  PreparedCorpus(const PreparedCorpus&) = delete;
  PreparedCorpus& operator=(const PreparedCorpus&) = delete;

  const std::filesystem::path& folder() const { return folder_; }
  const CorpusIndex& index() const { return index_; }
  // Of index.json, which has the hashes of everything else: it stands for the corpus.
  const std::string& sha256() const { return sha256_; }
  const std::shared_ptr<const Tokenizer>& tokenizer() const { return tokenizer_; }
  const CorpusPart& part(CorpusSide side) const { return parts_[static_cast<std::size_t>(side)]; }

 private:
  std::filesystem::path folder_;
  CorpusIndex index_;
  std::string sha256_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::array<CorpusPart, 2> parts_;  // by CorpusSide
};

}  // namespace cogwheel::text
