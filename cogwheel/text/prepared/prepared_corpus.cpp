#include "cogwheel/text/prepared/prepared_corpus.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/files/folder_lock.h"

namespace cogwheel::text {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void refuse_shard(const fs::path& file, const std::string& got) {
  throw Error(
      expected_got(file.string(), "a shard as it was written", got + "; `cogwheel data inspect --verify` says more"));
}

// Of a call to the system: so much that what the call costs is little beside it.
constexpr std::size_t piece_bytes = 1 << 14;

template <class Id>
std::int64_t widen(const std::byte* ids, std::span<std::int64_t> tokens) {
  Id largest = 0;
  for (std::size_t index = 0; index < tokens.size(); ++index) {
    Id id;
    std::memcpy(&id, ids + index * sizeof(Id), sizeof(Id));
    largest = std::max(largest, id);
    tokens[index] = static_cast<std::int64_t>(id);
  }
  return static_cast<std::int64_t>(largest);
}

}  // namespace

void CorpusPart::add(const std::shared_ptr<const RandomAccessFile>& file, ShardRecord::Places places,
                     DocumentsAndTokens counts) {
  if (counts.documents == 0) {
    if (counts.tokens != 0) refuse_shard(file->path(), "tokens without documents");
    return;
  }
  segments_.push_back({.file = file,
                       .ids = places.tokens,
                       .ends = places.ends,
                       .tokens = counts.tokens,
                       .documents = counts.documents,
                       .first_token = tokens_,
                       .first_document = documents_});
  std::int64_t last = 0;
  read_ends(segments_.back(), counts.documents - 1, {&last, 1});
  if (last != counts.tokens) refuse_shard(file->path(), "documents that do not end where its tokens do");
  tokens_ += counts.tokens;
  documents_ += counts.documents;
}

// Both in the segment: the places after the last token of documents, counted from its first.
void CorpusPart::read_ends(const Segment& segment, std::int64_t first, std::span<std::int64_t> ends) {
  segment.file->read(static_cast<std::uint64_t>(segment.ends) + static_cast<std::uint64_t>(first) * sizeof first,
                     std::as_writable_bytes(ends));
  for (const std::int64_t end : ends)
    if (end < 0 || end > segment.tokens) refuse_shard(segment.file->path(), "the end of a document beyond its own");
}

const CorpusPart::Segment& CorpusPart::segment_with_token(std::int64_t place) const {
  if (place < 0 || place >= tokens_) throw std::out_of_range("a place in a corpus");
  return *std::prev(std::upper_bound(segments_.begin(), segments_.end(), place,
                                     [](std::int64_t at, const Segment& each) { return at < each.first_token; }));
}

const CorpusPart::Segment& CorpusPart::segment_with_document(std::int64_t document) const {
  if (document < 0 || document >= documents_) throw std::out_of_range("a document of a corpus");
  return *std::prev(std::upper_bound(segments_.begin(), segments_.end(), document,
                                     [](std::int64_t at, const Segment& each) { return at < each.first_document; }));
}

void CorpusPart::read(std::int64_t first, std::span<std::int64_t> tokens) const {
  std::array<std::byte, piece_bytes> piece;
  while (!tokens.empty()) {
    const Segment& segment = segment_with_token(first);
    const std::int64_t within = first - segment.first_token,
                       count =
                           std::min({std::ssize(tokens), segment.tokens - within, std::ssize(piece) / token_bytes_});
    const std::span<std::byte> ids = std::span(piece).first(static_cast<std::size_t>(count * token_bytes_));
    segment.file->read(static_cast<std::uint64_t>(segment.ids + within * token_bytes_), ids);
    const std::span<std::int64_t> some = tokens.first(static_cast<std::size_t>(count));
    const std::int64_t largest =
        token_bytes_ == 2 ? widen<std::uint16_t>(ids.data(), some) : widen<std::uint32_t>(ids.data(), some);
    if (largest >= vocabulary_) refuse_shard(segment.file->path(), "the token " + std::to_string(largest));
    tokens = tokens.subspan(static_cast<std::size_t>(count));
    first += count;
  }
}

// The first document that ends after a place, both counted in the segment.
std::int64_t CorpusPart::document_at(const Segment& segment, std::int64_t place) {
  std::int64_t first = 0, after = segment.documents;
  while (first < after) {
    const std::int64_t middle = first + (after - first) / 2;
    std::int64_t end = 0;
    read_ends(segment, middle, {&end, 1});
    if (end > place)
      after = middle;
    else
      first = middle + 1;
  }
  return first;
}

std::vector<std::int64_t> CorpusPart::ends_within(std::int64_t first, std::int64_t last) const {
  std::vector<std::int64_t> ends;
  std::array<std::int64_t, 64> piece;  // more than most windows have
  std::int64_t place = first;
  while (place < std::min(last, tokens_)) {
    const Segment& segment = segment_with_token(place);
    std::int64_t document = document_at(segment, place - segment.first_token);
    while (document < segment.documents) {
      const auto some =
          std::span(piece).first(static_cast<std::size_t>(std::min(std::ssize(piece), segment.documents - document)));
      read_ends(segment, document, some);
      for (const std::int64_t end : some) {
        const std::int64_t found = segment.first_token + end;
        if (found > last) return ends;
        if (found <= (ends.empty() ? first : ends.back()))
          refuse_shard(segment.file->path(), "documents that end in no order");
        ends.push_back(found);
      }
      document += std::ssize(some);
    }
    place = segment.first_token + segment.tokens;
  }
  return ends;
}

void CorpusPart::read_document_ends(std::int64_t first, std::span<std::int64_t> ends) const {
  while (!ends.empty()) {
    const Segment& segment = segment_with_document(first);
    const std::int64_t within = first - segment.first_document;
    const auto some = ends.first(static_cast<std::size_t>(std::min(std::ssize(ends), segment.documents - within)));
    read_ends(segment, within, some);
    for (std::int64_t& end : some) end += segment.first_token;
    ends = ends.subspan(some.size());
    first += std::ssize(some);
  }
}

std::int64_t CorpusPart::document_end(std::int64_t document) const {
  std::int64_t end = 0;
  read_document_ends(document, {&end, 1});
  return end;
}

std::int64_t CorpusPart::document_begin(std::int64_t document) const {
  return document == segment_with_document(document).first_document ? segment_with_document(document).first_token
                                                                    : document_end(document - 1);
}

PreparedCorpus::PreparedCorpus(fs::path folder) : folder_(std::move(folder)) {
  const fs::path index = folder_ / corpus_index_file;
  if (std::error_code problem; !fs::exists(index, problem)) {
    const std::string kind = folder_kind(folder_);
    throw Error(expected_got(folder_.string(), "the folder of a corpus, as `cogwheel data prepare` makes it",
                             !fs::exists(folder_, problem)         ? "no folder"
                             : !fs::is_directory(folder_, problem) ? "a file"
                             : kind == corpus_kind ? "one that is not finished; the command that began it continues"
                             : kind.empty()        ? "one without " + std::string(corpus_index_file)
                                                   : "the folder of a " + kind));
  }
  const std::string json = read_file(index);
  index_ = parse_corpus_index(json, index.string());
  sha256_ = cogwheel::sha256(json);
  const fs::path tokenizer = folder_ / corpus_tokenizer_file;
  if (const std::string got = sha256_of_file(tokenizer); got != index_.tokenizer.sha256)
    throw Error(expected_got(tokenizer.string(), "SHA-256 " + index_.tokenizer.sha256 + ", as the index says", got));
  tokenizer_ = load_tokenizer(tokenizer);
  if (tokenizer_->vocabulary() != index_.tokenizer.vocabulary)
    throw Error(expected_got(tokenizer.string(), std::to_string(index_.tokenizer.vocabulary) + " tokens",
                             std::to_string(tokenizer_->vocabulary())));
  const std::int64_t token_bytes = index_.tokenizer.token_bytes();
  for (CorpusPart& part : parts_) {
    part.token_bytes_ = token_bytes;
    part.vocabulary_ = index_.tokenizer.vocabulary;
  }
  for (const ShardRecord& shard : index_.shards) {
    const fs::path path = folder_ / shard.file;
    const auto file = std::make_shared<const RandomAccessFile>(path);
    if (const std::int64_t bytes = shard.bytes(token_bytes); std::cmp_not_equal(file->size(), bytes))
      throw Error(expected_got(path.string(), std::to_string(bytes) + " bytes", std::to_string(file->size())));
    for (const CorpusSide side : corpus_sides)
      parts_[static_cast<std::size_t>(side)].add(file, shard.places(side, token_bytes),
                                                 shard.sides[static_cast<std::size_t>(side)]);
  }
}

}  // namespace cogwheel::text
