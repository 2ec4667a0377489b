#include "cogwheel/text/prepared/corpus_check.h"

#include <algorithm>
#include <bit>

#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"

namespace cogwheel::text {

void verify_corpus(const PreparedCorpus& corpus, const std::function<void(std::int64_t bytes)>& go_on) {
  std::int64_t read = 0;
  for (const ShardRecord& shard : corpus.index().shards) {
    const std::filesystem::path path = corpus.folder() / shard.file;
    Sha256 hash;
    read_pieces(path, [&](std::string_view piece) {
      hash.add(piece);
      read += std::ssize(piece);
      if (go_on) go_on(read);
    });
    if (const std::string got = hash.digits(); got != shard.sha256)
      throw Error(expected_got(path.string(), "SHA-256 " + shard.sha256 + ", as the index says", got));
  }
  // Hashes say that shards are what was written; that it is what readers expect is checked too.
  for (const CorpusSide side : corpus_sides) {
    const CorpusPart& part = corpus.part(side);
    std::vector<std::int64_t> tokens(1 << 16);
    std::int64_t documents = 0;
    for (std::int64_t place = 0; place < part.tokens(); place += std::ssize(tokens)) {
      tokens.resize(static_cast<std::size_t>(std::min(std::ssize(tokens), part.tokens() - place)));
      part.read(place, tokens);
      documents += std::ssize(part.ends_within(place, place + std::ssize(tokens)));
    }
    if (documents != part.documents())
      throw Error(expected_got((corpus.folder() / corpus_index_file).string(), std::to_string(documents) + " documents",
                               std::to_string(part.documents())));
  }
}

DocumentLengths document_lengths(const CorpusPart& part) {
  DocumentLengths lengths;
  lengths.shortest = part.tokens();
  std::int64_t begin = 0;
  std::vector<std::int64_t> ends(1 << 12);
  for (std::int64_t document = 0; document < part.documents(); document += std::ssize(ends)) {
    ends.resize(static_cast<std::size_t>(std::min(std::ssize(ends), part.documents() - document)));
    part.read_document_ends(document, ends);
    for (const std::int64_t end : ends) {
      const std::int64_t length = std::max<std::int64_t>(end - begin, 0);
      lengths.shortest = std::min(lengths.shortest, length);
      lengths.longest = std::max(lengths.longest, length);
      begin = end;
      const auto power =
          static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(length, 1)))) - 1;
      if (lengths.by_power_of_two.size() <= power) lengths.by_power_of_two.resize(power + 1);
      ++lengths.by_power_of_two[power];
    }
  }
  if (part.documents() > 0) lengths.mean = static_cast<double>(part.tokens()) / static_cast<double>(part.documents());
  return lengths;
}

std::vector<SampleDocument> sample_documents(const PreparedCorpus& corpus, CorpusSide side, std::int64_t count,
                                             std::int64_t most_tokens) {
  const CorpusPart& part = corpus.part(side);
  count = std::min(count, part.documents());
  std::vector<SampleDocument> samples;
  for (std::int64_t sample = 0; sample < count; ++sample) {
    const std::int64_t document = part.documents() / count * sample, begin = part.document_begin(document),
                       tokens = std::max<std::int64_t>(part.document_end(document) - begin, 0),
                       shown = std::min(tokens, most_tokens);
    std::vector<std::int64_t> read(static_cast<std::size_t>(shown));
    part.read(begin, read);
    samples.push_back({.document = document,
                       .tokens = tokens,
                       .text = corpus.tokenizer()->decode(std::vector<Token>(read.begin(), read.end())),
                       .is_cut = shown < tokens});
  }
  return samples;
}

}  // namespace cogwheel::text
