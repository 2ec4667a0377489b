#include "cogwheel/tasks/encoders/masked_words.h"

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cogwheel/core/range.h"
#include "cogwheel/runs/task_options.h"
#include "cogwheel/text/random_tokens.h"

namespace cogwheel::tasks::encoders {
namespace {

// Rows of two sentences.
std::shared_ptr<const SentenceCorpus> random_rows(std::int64_t vocabulary, std::int64_t batch, std::int64_t length) {
  constexpr std::int64_t added = 3,
                         first_word = std::ssize(text::WordPieceTokenizer::special_pieces);  // [CLS], twice [SEP]
  std::vector<std::string> pieces(text::WordPieceTokenizer::special_pieces.begin(),
                                  text::WordPieceTokenizer::special_pieces.end());
  for (std::int64_t piece = first_word; piece < vocabulary; ++piece) pieces.push_back(std::to_string(piece));
  auto corpus = std::make_shared<SentenceCorpus>();
  corpus->name = "random sentences";
  corpus->tokenizer = std::make_shared<text::WordPieceTokenizer>(std::move(pieces), true);
  corpus->longest = length;
  std::mt19937_64 generator(0);
  const auto sentence = [&](std::int64_t tokens) {
    return text::random_tokens(tokens, first_word, vocabulary, generator);
  };
  const std::int64_t first = (length - added + 1) / 2, second = length - added - first;
  for (auto* const part : {&corpus->training, &corpus->held_out})
    for (std::int64_t row = 0; row < std::max<std::int64_t>(1024, batch); ++row) {
      const std::vector<Token> tokens = sentence(first);
      part->tokens.add(tokens, sentence(second), row);
    }
  return corpus;
}

}  // namespace

std::shared_ptr<const runs::Task> random_masked_words(const runs::RunConfig& config, const runs::RandomItems& items) {
  const std::int64_t vocabulary = runs::given_vocabulary(config, text::WordPieceTokenizer::vocabularies);
  expect_within("--length", items.length, Range<std::int64_t>{5, SentenceOptions::lengths.max});
  return make_masked_words(random_rows(vocabulary, config.training.batch, items.length));
}

}  // namespace cogwheel::tasks::encoders
