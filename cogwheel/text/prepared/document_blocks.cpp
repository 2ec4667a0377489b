#include "cogwheel/text/prepared/document_blocks.h"

#include <algorithm>

#include "cogwheel/core/error.h"
#include "cogwheel/text/prepared/json_line.h"
#include "cogwheel/text/prepared/source_stream.h"

namespace cogwheel::text {
namespace {

constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

void expect_no_longer(std::size_t bytes, const Source& source, std::int64_t line) {
  if (bytes < DocumentBlocks::longest_document) return;
  throw Error(expected_got(source.path.string() + (line < 0 ? "" : ", line " + std::to_string(line + 1)),
                           "a document of less than 4 GiB", "a longer one"));
}

}  // namespace

DocumentBlocks::DocumentBlocks(const std::vector<Source>& sources, std::int64_t first, std::int64_t skipped)
    : sources_(sources), source_(first), skipped_(skipped) {
  for (std::int64_t before = 0; before < first; ++before) read_ += sources[static_cast<std::size_t>(before)].bytes;
}
DocumentBlocks::~DocumentBlocks() = default;

std::string_view DocumentBlocks::next_piece() {
  const std::string_view piece = stream_->next();
  read_ += stream_->bytes_read() - read_of_source_;
  read_of_source_ = stream_->bytes_read();
  return piece;
}

void DocumentBlocks::add(DocumentBlock& block, std::string_view document) {
  const std::int64_t number = documents_++;
  if (number < skipped_) return;
  if (number == 0 && document.starts_with(byte_order_mark)) document.remove_prefix(byte_order_mark.size());
  block.documents.push_back({block.bytes.size(), document.size(), number});
  block.bytes += document;
}

void DocumentBlocks::read_lines(DocumentBlock& block) {
  const Source& source = sources_[static_cast<std::size_t>(source_)];
  while (block.bytes.size() < bytes_of_block) {
    if (piece_.empty()) {
      piece_ = next_piece();
      if (piece_.empty()) {
        if (!line_.empty()) add(block, line_);
        line_.clear();
        return end_source(block);
      }
    }
    const std::size_t end = piece_.find('\n');
    const std::string_view part = piece_.substr(0, end);
    piece_.remove_prefix(end == std::string_view::npos ? piece_.size() : end + 1);
    expect_no_longer(line_.size() + part.size(), source, documents_);
    if (end == std::string_view::npos || !line_.empty()) line_ += part;
    if (end == std::string_view::npos) continue;
    add(block, line_.empty() ? part : line_);
    line_.clear();
  }
}

void DocumentBlocks::read_text(DocumentBlock& block) {
  const Source& source = sources_[static_cast<std::size_t>(source_)];
  const bool skipped = skipped_ > 0;
  // Of a file that is not compressed the size is known, and memory that grows would be twice that at times.
  if (source.compression == Compression::none && !skipped)
    block.bytes.reserve(std::min(static_cast<std::size_t>(source.bytes), longest_document) + JsonLineReader::padding);
  for (std::string_view piece = next_piece(); !piece.empty(); piece = next_piece()) {
    expect_no_longer(block.bytes.size() + piece.size(), source, -1);
    if (!skipped) block.bytes += piece;
  }
  if (!skipped) {
    const std::size_t mark = block.bytes.starts_with(byte_order_mark) ? byte_order_mark.size() : 0;
    block.documents.push_back({mark, block.bytes.size() - mark, 0});
  }
  documents_ = 1;
  end_source(block);
}

void DocumentBlocks::end_source(DocumentBlock& block) {
  block.sha256 = stream_->sha256();
  block.documents_in_source = documents_;
  const Source& source = sources_[static_cast<std::size_t>(source_)];
  if (read_of_source_ != source.bytes)
    throw Error(expected_got(source.path.string(), std::to_string(source.bytes) + " bytes, as a while ago",
                             std::to_string(read_of_source_)));
  stream_.reset();
  ++source_;
  skipped_ = 0;
}

std::optional<DocumentBlock> DocumentBlocks::next() {
  if (source_ == std::ssize(sources_)) return std::nullopt;
  const Source& source = sources_[static_cast<std::size_t>(source_)];
  if (!stream_) {
    stream_ = std::make_unique<SourceStream>(source);
    documents_ = read_of_source_ = 0;
    piece_ = {};
  }
  DocumentBlock block{.source = source_};
  if (source.form == SourceForm::text)
    read_text(block);
  else
    read_lines(block);
  block.bytes.append(JsonLineReader::padding, ' ');
  return block;
}

}  // namespace cogwheel::text
