#include "cogwheel/tasks/translation/translation.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <random>
#include <vector>

#include "cogwheel/core/random.h"
#include "cogwheel/runs/batch.h"
#include "cogwheel/runs/task_options.h"
#include "cogwheel/tasks/translation/beam_search.h"
#include "cogwheel/tasks/translation/random_translations.h"
#include "cogwheel/tasks/translation/sentence_batch.h"
#include "cogwheel/tasks/translation/translator.h"
#include "cogwheel/text/random_tokens.h"

namespace cogwheel::tasks::translation {
namespace {

class RandomSentences final : public TranslationData {
 public:
  RandomSentences(std::int64_t vocabulary, const runs::RandomItems& items) : tokenizer_(vocabulary), items_(items) {
    held_out_ = drawn(64, 0);
  }
  const text::SentenceTokenizer& tokenizer() const override { return tokenizer_; }
  std::string name() const override { return "random sentences"; }
  SentenceBatch batch(std::uint64_t seed, std::int64_t step, std::int64_t sentences) const override {
    return sentence_batch(drawn(sentences, random_of({seed, static_cast<std::uint64_t>(step)})));
  }
  const text::SentencePairs& held_out() const override { return held_out_; }
  const ParallelText& test() const override { return test_; }
  std::shared_ptr<const TranslationData> for_tuning() const override {
    return std::make_shared<RandomSentences>(tokenizer_.vocabulary(), items_);
  }

 private:
  // Each with an end that is added later.
  text::SentencePairs drawn(std::int64_t count, std::uint64_t seed) const {
    std::mt19937_64 generator(seed);
    text::SentencePairs pairs;
    const auto sentence = [&](std::int64_t length) {
      return text::random_tokens(length - 1, text::SentenceTokens::count, tokenizer_.vocabulary(), generator);
    };
    for (std::int64_t line = 0; line < count; ++line) {
      const std::vector<Token> source = sentence(items_.source);
      pairs.add(source, sentence(items_.length), line);
    }
    return pairs;
  }

  text::NumberedTokens tokenizer_;
  runs::RandomItems items_;
  text::SentencePairs held_out_;
  ParallelText test_;
};

}  // namespace

std::shared_ptr<const runs::Task> random_translation(const runs::RunConfig& config, const runs::RandomItems& items) {
  return make_translation(std::make_shared<RandomSentences>(
      runs::given_vocabulary(config, {text::SentenceTokens::count + 1, 1 << 30}), items));
}

std::function<double()> random_translations(const runs::RunConfig& given, const runs::RandomItems& items,
                                            std::int64_t beam) {
  const auto task = random_translation(given, items);
  const runs::RunConfig config = task->completed(given);
  const auto module = runs::make_model(config.model);
  task->initialize(*module, config.training.seed);
  const torch::NoGradGuard no_grad;
  module->named_parameters()["output_bias"].select(0, text::SentenceTokens::end).fill_(-1e9);
  const runs::Batch batch = task->batch(*module, config.training, {});
  return [module, batch, beam]() {
    const torch::NoGradGuard no_gradients;
    return beam_search(translator_of(*module), batch.source, batch.source_lengths, text::SentenceTokens::begin,
                       text::SentenceTokens::end, {.beam = beam})
        .front()
        .log_probability;
  };
}

}  // namespace cogwheel::tasks::translation
