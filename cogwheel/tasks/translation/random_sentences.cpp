#include "cogwheel/tasks/translation/translation.h"

#include <random>
#include <vector>

#include "cogwheel/core/random.h"
#include "cogwheel/runs/task_options.h"
#include "cogwheel/text/random_tokens.h"
#include "cogwheel/text/sentence_batch.h"

namespace cogwheel {
namespace {

class RandomSentences final : public TranslationData {
 public:
  RandomSentences(std::int64_t vocabulary, const RandomItems& items) : tokenizer_(vocabulary), items_(items) {
    held_out_ = drawn(64, 0);
  }
  const SentenceTokenizer& tokenizer() const override { return tokenizer_; }
  std::string name() const override { return "random sentences"; }
  SentenceBatch batch(std::uint64_t seed, std::int64_t step, std::int64_t sentences) const override {
    return sentence_batch(drawn(sentences, random_of({seed, static_cast<std::uint64_t>(step)})));
  }
  const SentencePairs& held_out() const override { return held_out_; }
  const ParallelText& test() const override { return test_; }
  std::shared_ptr<const TranslationData> for_tuning() const override {
    return std::make_shared<RandomSentences>(tokenizer_.vocabulary(), items_);
  }

 private:
  // Each with an end that is added later.
  SentencePairs drawn(std::int64_t count, std::uint64_t seed) const {
    std::mt19937_64 generator(seed);
    SentencePairs pairs;
    const auto sentence = [&](std::int64_t length) {
      return random_tokens(length - 1, SentenceTokens::count, tokenizer_.vocabulary(), generator);
    };
    for (std::int64_t line = 0; line < count; ++line) {
      const std::vector<Token> source = sentence(items_.source);
      pairs.add(source, sentence(items_.length), line);
    }
    return pairs;
  }

  NumberedTokens tokenizer_;
  RandomItems items_;
  SentencePairs held_out_;
  ParallelText test_;
};

}  // namespace

std::shared_ptr<const Task> random_translation(const RunConfig& config, const RandomItems& items) {
  return make_translation(
      std::make_shared<RandomSentences>(given_vocabulary(config, {SentenceTokens::count + 1, 1 << 30}), items));
}

}  // namespace cogwheel
