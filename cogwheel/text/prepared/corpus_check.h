// What a prepared corpus holds, read from one end to the other.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cogwheel/text/prepared/prepared_corpus.h"

namespace cogwheel::text {

// Throws Error in one line for the first shard whose SHA-256 is not that of the index, whose documents end in no order
// or are empty, or which has a token outside the vocabulary. `go_on`, which is given the bytes read so far, may throw.
void verify_corpus(const PreparedCorpus& corpus, const std::function<void(std::int64_t bytes)>& go_on = {});

struct DocumentLengths {
  std::int64_t shortest = 0, longest = 0;  // in tokens
  double mean = 0;
  // How many have 2ⁱ to below 2ⁱ⁺¹ tokens, up to the longest.
  std::vector<std::int64_t> by_power_of_two;
};
// Of all zeros where there are no documents.
DocumentLengths document_lengths(const CorpusPart& part);

// `count` documents of a side, evenly spread and always the same, as text of at most so many tokens each.
struct SampleDocument {
  std::int64_t document, tokens;
  std::string text;
  bool is_cut;
};
std::vector<SampleDocument> sample_documents(const PreparedCorpus& corpus, CorpusSide side, std::int64_t count,
                                             std::int64_t most_tokens);

}  // namespace cogwheel::text
