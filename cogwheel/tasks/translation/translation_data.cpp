#include "cogwheel/tasks/translation/translation_data.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <mutex>
#include <utility>

#include "cogwheel/core/error.h"
#include "cogwheel/text/batch_plan.h"
#include "cogwheel/text/held_out_tenth.h"
#include "cogwheel/text/text_record.h"

namespace cogwheel::tasks::translation {
namespace {

class ParallelData : public TranslationData {
 public:
  explicit ParallelData(std::shared_ptr<const ParallelCorpus> corpus) : corpus_(std::move(corpus)) {}

  const text::SentenceTokenizer& tokenizer() const override { return *corpus_->tokenizer; }
  std::string name() const override { return corpus_->name; }
  std::string sha256() const override { return corpus_->sha256; }
  std::int64_t bytes() const override { return corpus_->bytes; }
  std::int64_t sentences() const override { return corpus_->training.size(); }
  std::string dropped() const override { return dropped_text(*corpus_); }
  std::string record() const override {
    return text::text_record(corpus_->name, corpus_->bytes, corpus_->sha256, corpus_->files);
  }
  const text::SentencePairs& held_out() const override { return corpus_->held_out; }
  const ParallelText& test() const override { return corpus_->test; }

  SentenceBatch batch(std::uint64_t seed, std::int64_t step, std::int64_t sentences) const override {
    const std::lock_guard lock(mutex_);
    if (!plan_ || planned_ != sentences) {
      plan_ = std::make_unique<text::BatchPlan>(corpus_->training, text::BatchSize{.sentences = sentences});
      planned_ = sentences;
    }
    return sentence_batch(corpus_->training, plan_->pairs(seed, step));
  }

  std::shared_ptr<const TranslationData> for_tuning() const override {
    auto split = std::make_shared<ParallelCorpus>(*corpus_);
    const text::SentencePairs& all = corpus_->training;
    split->training = split->held_out = {};
    split->test = {};
    std::vector<std::string> sources;
    for (std::int64_t pair = 0; pair < all.size(); ++pair) sources.push_back(all.source_content(pair));
    const std::vector<bool> held_out = text::held_out_tenth({.keys = sources, .most = corpus_->held_out.size()});
    for (std::int64_t pair = 0; pair < all.size(); ++pair)
      (held_out[static_cast<std::size_t>(pair)] ? split->held_out : split->training)
          .add(all.source(pair), all.target(pair), all.line(pair));
    if (split->held_out.size() == 0)
      throw Error(expected_got(corpus_->name + ", to choose a learning rate", "two different sentences to train on",
                               "only equal ones"));
    return parallel_data(std::move(split));
  }

 private:
  std::shared_ptr<const ParallelCorpus> corpus_;
  // Of the batch size that was asked for last: sorting all pairs takes longer than a step.
  mutable std::mutex mutex_;
  mutable std::unique_ptr<const text::BatchPlan> plan_;
  mutable std::int64_t planned_ = 0;
};

class ToyData : public TranslationData {
 public:
  static constexpr std::int64_t held_out_sentences = 1000, test_sentences = 200;

  ToyData(const ToyLanguage& language, ToyPart part) : language_(language), tokenizer_(toy_tokenizer()) {
    held_out_ = toy_pairs(language, 0, part, 0, held_out_sentences);
    for (std::int64_t index = 0; index < test_sentences; ++index) {
      ToySentence sentence = toy_sentence(language, 0, ToyPart::test, index);
      test_.source.push_back(fmt::format("{}", fmt::join(sentence.source, " ")));
      test_.target.push_back(fmt::format("{}", fmt::join(sentence.target, " ")));
      links_.push_back(std::move(sentence.links));
    }
  }

  const text::SentenceTokenizer& tokenizer() const override { return *tokenizer_; }
  std::string name() const override {
    return language_.distance == 0 ? "toy language"
                                   : "toy language, words moved by " + std::to_string(language_.distance);
  }
  std::int64_t longest() const override { return language_.longest(); }
  const text::SentencePairs& held_out() const override { return held_out_; }
  const ParallelText& test() const override { return test_; }
  std::span<const std::vector<WordLink>> test_links() const override { return links_; }

  SentenceBatch batch(std::uint64_t seed, std::int64_t step, std::int64_t sentences) const override {
    return sentence_batch(toy_pairs(language_, seed, ToyPart::training, step * sentences, sentences));
  }

  // Other sentences of the same language: they are drawn.
  std::shared_ptr<const TranslationData> for_tuning() const override {
    return std::make_shared<ToyData>(language_, ToyPart::test);
  }

 private:
  ToyLanguage language_;
  std::shared_ptr<const text::SentenceTokenizer> tokenizer_;
  text::SentencePairs held_out_;
  ParallelText test_;
  std::vector<std::vector<WordLink>> links_;
};

}  // namespace

std::shared_ptr<const TranslationData> parallel_data(std::shared_ptr<const ParallelCorpus> corpus) {
  return std::make_shared<ParallelData>(std::move(corpus));
}
std::shared_ptr<const TranslationData> toy_data(const ToyLanguage& language) {
  return std::make_shared<ToyData>(language, ToyPart::held_out);
}

}  // namespace cogwheel::tasks::translation
