#include "cogwheel/cli/random_task.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/randn.h>

#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cogwheel/core/error.h"
#include "cogwheel/core/range.h"
#include "cogwheel/core/uniform_number.h"
#include "cogwheel/data/counted_random.h"
#include "cogwheel/data/given_images.h"
#include "cogwheel/tasks/diffusion.h"
#include "cogwheel/tasks/handwriting.h"
#include "cogwheel/tasks/images.h"
#include "cogwheel/tasks/language_modelling.h"
#include "cogwheel/tasks/masked_words.h"
#include "cogwheel/tasks/translation.h"

namespace cogwheel {
namespace {

// Tokens without a text.
class NumberedTokens final : public SentenceTokenizer {
 public:
  explicit NumberedTokens(std::int64_t vocabulary) : vocabulary_(vocabulary) {}
  std::string_view kind() const override { return "numbered"; }
  std::int64_t vocabulary() const override { return vocabulary_; }
  std::vector<Token> encode(std::string_view, std::string_view what) const override {
    throw Error(expected_got(std::string(what), "numbers", "text"));
  }
  std::string decode(std::span<const Token>) const override { return ""; }
  std::string to_json() const override { return "{}"; }
  std::string piece(Token) const override { return ""; }

 private:
  std::int64_t vocabulary_;
};

std::vector<Token> random_tokens(std::int64_t count, std::int64_t first, std::int64_t end, std::mt19937_64& generator) {
  std::vector<Token> tokens;
  for (std::int64_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<Token>(first + static_cast<std::int64_t>(generator() % std::uint64_t(end - first))));
  return tokens;
}

std::shared_ptr<const Dataset> random_text(std::int64_t vocabulary) {
  constexpr std::int64_t tokens = 1 << 20;
  auto data = std::make_shared<Dataset>();
  data->name = "random tokens";
  data->tokenizer = std::make_shared<NumberedTokens>(vocabulary);
  std::mt19937_64 generator(0);
  for (auto* part : {&data->training, &data->held_out}) *part = random_tokens(tokens, 0, vocabulary, generator);
  return data;
}

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

// Rows of two sentences.
std::shared_ptr<const SentenceCorpus> random_rows(std::int64_t vocabulary, std::int64_t batch, std::int64_t length) {
  constexpr std::int64_t added = 3, first_word = std::ssize(WordPieceTokenizer::special_pieces);  // [CLS], twice [SEP]
  std::vector<std::string> pieces(WordPieceTokenizer::special_pieces.begin(), WordPieceTokenizer::special_pieces.end());
  for (std::int64_t piece = first_word; piece < vocabulary; ++piece) pieces.push_back(std::to_string(piece));
  auto corpus = std::make_shared<SentenceCorpus>();
  corpus->name = "random sentences";
  corpus->tokenizer = std::make_shared<WordPieceTokenizer>(std::move(pieces), true);
  corpus->longest = length;
  std::mt19937_64 generator(0);
  const auto sentence = [&](std::int64_t tokens) { return random_tokens(tokens, first_word, vocabulary, generator); };
  const std::int64_t first = (length - added + 1) / 2, second = length - added - first;
  for (auto* const part : {&corpus->training, &corpus->held_out})
    for (std::int64_t row = 0; row < std::max<std::int64_t>(1024, batch); ++row) {
      const std::vector<Token> tokens = sentence(first);
      part->tokens.add(tokens, sentence(second), row);
    }
  return corpus;
}

class RandomStrokes final : public StrokeSource {
 public:
  RandomStrokes(std::int64_t vocabulary, const RandomItems& items) : items_(items) {
    name_ = "random strokes";
    std::vector<char32_t> characters(static_cast<std::size_t>(vocabulary));
    std::iota(characters.begin(), characters.end(), U'!');
    if (vocabulary > 0) alphabet_ = std::make_shared<CharacterTokenizer>(std::move(characters));
    held_out_ = {training_sequence(0, 0)};
  }
  std::int64_t training_sequences() const override { return 0; }
  std::int64_t training_points() const override { return 0; }
  StrokeSequence training_sequence(std::uint64_t seed, std::uint64_t place) const override {
    std::mt19937_64 generator(random_of({seed, place}));
    StrokeSequence sequence;
    const auto offset = [&] { return static_cast<float>(2 * uniform_number(generator) - 1); };
    for (std::int64_t point = 0; point <= items_.length; ++point)
      sequence.points.push_back({.dx = offset(), .dy = offset(), .ends = generator() % 20 == 0});
    if (alphabet_)
      sequence.text = alphabet_->decode(random_tokens(items_.source, 0, alphabet_->vocabulary(), generator));
    return sequence;
  }
  std::shared_ptr<const StrokeSource> for_tuning() const override {
    return std::make_shared<RandomStrokes>(alphabet_ ? alphabet_->vocabulary() : 0, items_);
  }

 private:
  RandomItems items_;
};

// Of the size that the options say. As many of each class, or without classes none has a label; as latents, they may
// have any number of channels.
template <class Options>
std::shared_ptr<const ImageSource> random_images(const Options& options) {
  expect_within("model.image_size", options.image_size, Range<std::int64_t>{1, 1 << 10});
  expect_within("model.channels", options.channels, Range<std::int64_t>{1, 1 << 6});
  const std::int64_t count = std::max<std::int64_t>(1024, 2 * options.vocabulary);
  GivenImages given;
  given.name = "random images";
  given.images = at::randn({count, options.channels, options.image_size, options.image_size},
                           at::make_generator<at::CPUGeneratorImpl>(/*seed=*/0), at::TensorOptions());
  if (options.vocabulary > 0) given.labels = at::arange(count, at::kLong).remainder(options.vocabulary);
  return given_images(std::move(given));
}

}  // namespace

std::shared_ptr<const Task> random_task(const RunConfig& config, const RandomItems& items) {
  const std::string& name = config.task.name;
  const std::int64_t vocabulary = common(config.model).vocabulary;
  const auto expect_vocabulary = [&](std::int64_t least, std::int64_t most) {
    expect_within("model.vocabulary", vocabulary, Range<std::int64_t>{least, most});
  };
  constexpr std::int64_t any = 1 << 30;
  if (name == "language_modelling") {
    expect_vocabulary(1, any);
    return make_language_modelling(random_text(vocabulary));
  }
  if (name == "translation") {
    expect_vocabulary(SentenceTokens::count + 1, any);
    return make_translation(std::make_shared<RandomSentences>(vocabulary, items));
  }
  if (name == "handwriting") {
    expect_vocabulary(0, 50'000);  // code points from ! on, up to those that are no characters
    return make_handwriting(std::make_shared<RandomStrokes>(vocabulary, items));
  }
  if (name == "masked_words") {
    expect_vocabulary(WordPieceTokenizer::vocabularies.min, WordPieceTokenizer::vocabularies.max);
    expect_within("--length", items.length, Range<std::int64_t>{5, SentenceOptions::lengths.max});
    return make_masked_words(random_rows(vocabulary, config.training.batch, items.length));
  }
  if (name == "images") {
    expect_vocabulary(1, 1 << 16);
    return make_image_task(random_images(std::get<VisionTransformerOptions>(config.model)));
  }
  if (name == "diffusion") {
    expect_vocabulary(0, 0);
    return make_diffusion(random_images(std::get<UVitOptions>(config.model)));
  }
  throw UsageError(
      expected_got("task", "language_modelling, translation, handwriting, masked_words, images or diffusion", name));
}

}  // namespace cogwheel
