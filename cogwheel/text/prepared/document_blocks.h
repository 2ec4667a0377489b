// The documents of all sources as they lie in them, a few at a time.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/text/prepared/source.h"

namespace cogwheel::text {

// Documents of one source, one after another, each with the bytes after it that JsonLineReader asks for.
struct DocumentBlock {
  struct Document {
    std::size_t offset, bytes;
    std::int64_t number;  // in its source, from 0; of a line, its place in the file, empty lines included
  };
  std::int64_t source = 0;
  std::vector<Document> documents = {};
  std::string bytes = {};
  // Of a source that ends with this block: the hash of its file and its documents, with those that were skipped.
  std::string sha256 = {};
  std::int64_t documents_in_source = 0;

  bool ends_source() const { return !sha256.empty(); }
  std::string_view text(const Document& document) const {
    return std::string_view(bytes).substr(document.offset, document.bytes);
  }
};

class SourceStream;

class DocumentBlocks {
 public:
  // A document of this size or more is refused: a block holds one whole.
  static constexpr std::size_t longest_document = std::size_t{1} << 32;
  // A block ends at the document with which it has so many bytes.
  static constexpr std::size_t bytes_of_block = 1 << 20;

  // From document `skipped` of source `first` on; those before it are read, for the hash of the file, and left out.
  // `sources` must outlive this.
  DocumentBlocks(const std::vector<Source>& sources, std::int64_t first, std::int64_t skipped);
  ~DocumentBlocks();

  // None at the end. Throws Error that names the file where it cannot be read.
  std::optional<DocumentBlock> next();
  std::int64_t bytes_read() const { return read_; }  // of all files, as they lie there

 private:
  void read_lines(DocumentBlock& block);
  void read_text(DocumentBlock& block);
  void end_source(DocumentBlock& block);
  void add(DocumentBlock& block, std::string_view document);
  std::string_view next_piece();

  const std::vector<Source>& sources_;
  std::int64_t source_;
  std::int64_t skipped_;
  std::unique_ptr<SourceStream> stream_;
  std::string_view piece_;      // of the stream, not used yet
  std::string line_;            // the start of a line that goes on in the next piece
  std::int64_t documents_ = 0;  // of the source, so far
  std::int64_t read_ = 0, read_of_source_ = 0;
};

}  // namespace cogwheel::text
