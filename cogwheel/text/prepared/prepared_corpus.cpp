#include "cogwheel/text/prepared/prepared_corpus.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"

namespace cogwheel::text {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void refuse_shard(const fs::path& file, const std::string& got) {
  throw Error(
      expected_got(file.string(), "a shard as it was written", got + "; `cogwheel data inspect --verify` says more"));
}

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

void CorpusPart::add(const fs::path& file, const std::byte* ids, const std::byte* ends, DocumentsAndTokens counts) {
  if (counts.documents == 0) {
    if (counts.tokens != 0) refuse_shard(file, "tokens without documents");
    return;
  }
  segments_.push_back({.file = file,
                       .ids = ids,
                       .ends = reinterpret_cast<const std::uint64_t*>(ends),
                       .tokens = counts.tokens,
                       .documents = counts.documents,
                       .first_token = tokens_,
                       .first_document = documents_});
  if (end_in(segments_.back(), counts.documents - 1) != counts.tokens)
    refuse_shard(file, "documents that do not end where its tokens do");
  tokens_ += counts.tokens;
  documents_ += counts.documents;
}

// In the segment: the place after the last token of a document, counted from its first.
std::int64_t CorpusPart::end_in(const Segment& segment, std::int64_t document) {
  const std::uint64_t end = segment.ends[document];
  if (std::cmp_greater(end, segment.tokens)) refuse_shard(segment.file, "the end of a document beyond its own");
  return static_cast<std::int64_t>(end);
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
  while (!tokens.empty()) {
    const Segment& segment = segment_with_token(first);
    const std::int64_t within = first - segment.first_token,
                       count = std::min(std::ssize(tokens), segment.tokens - within);
    const std::byte* ids = segment.ids + within * token_bytes_;
    const std::span<std::int64_t> some = tokens.first(static_cast<std::size_t>(count));
    const std::int64_t largest = token_bytes_ == 2 ? widen<std::uint16_t>(ids, some) : widen<std::uint32_t>(ids, some);
    if (largest >= vocabulary_) refuse_shard(segment.file, "the token " + std::to_string(largest));
    tokens = tokens.subspan(static_cast<std::size_t>(count));
    first += count;
  }
}

std::vector<std::int64_t> CorpusPart::ends_within(std::int64_t first, std::int64_t last) const {
  std::vector<std::int64_t> ends;
  std::int64_t place = first;
  while (place < std::min(last, tokens_)) {
    const Segment& segment = segment_with_token(place);
    const std::uint64_t* const end = segment.ends + segment.documents;
    const auto within = static_cast<std::uint64_t>(place - segment.first_token);
    for (const std::uint64_t* each = std::upper_bound(segment.ends, end, within); each != end; ++each) {
      const std::int64_t found = segment.first_token + end_in(segment, each - segment.ends);
      if (found > last) return ends;
      if (found <= (ends.empty() ? first : ends.back())) refuse_shard(segment.file, "documents that end in no order");
      ends.push_back(found);
    }
    place = segment.first_token + segment.tokens;
  }
  return ends;
}

std::int64_t CorpusPart::document_end(std::int64_t document) const {
  const Segment& segment = segment_with_document(document);
  return segment.first_token + end_in(segment, document - segment.first_document);
}

std::int64_t CorpusPart::document_begin(std::int64_t document) const {
  const Segment& segment = segment_with_document(document);
  const std::int64_t within = document - segment.first_document;
  return segment.first_token + (within == 0 ? 0 : end_in(segment, within - 1));
}

PreparedCorpus::PreparedCorpus(fs::path folder) : folder_(std::move(folder)) {
  const fs::path index = folder_ / corpus_index_file;
  if (std::error_code problem; !fs::exists(index, problem)) {
    const bool begun =
        fs::exists(folder_ / corpus_tokenizer_file, problem) && fs::exists(folder_ / ".cogwheel", problem);
    throw Error(expected_got(folder_.string(), "the folder of a corpus, as `cogwheel data prepare` makes it",
                             !fs::exists(folder_, problem) ? "no folder"
                             : begun ? "one that is not finished; the command that began it continues"
                                     : "one without " + std::string(corpus_index_file)));
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
    const MappedFile& file = files_.emplace_back(path, static_cast<std::size_t>(shard.bytes(token_bytes)));
    const auto* bytes = reinterpret_cast<const std::byte*>(file.bytes().data());
    for (const CorpusSide side : corpus_sides) {
      const ShardRecord::Places places = shard.places(side, token_bytes);
      parts_[static_cast<std::size_t>(side)].add(path, bytes + places.tokens, bytes + places.ends,
                                                 shard.sides[static_cast<std::size_t>(side)]);
    }
  }
}

}  // namespace cogwheel::text
