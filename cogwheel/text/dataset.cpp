#include "cogwheel/text/dataset.h"

#include <algorithm>

#include "cogwheel/core/error.h"
#include "cogwheel/text/byte_pair_tokenizer.h"
#include "cogwheel/text/character_tokenizer.h"

namespace cogwheel::text {

Dataset make_dataset(const Corpus& corpus, std::shared_ptr<const Tokenizer> tokenizer, std::int64_t context) {
  const std::vector<Token> tokens = tokenizer->encode(corpus.text, corpus.name);
  const auto held_out_start = static_cast<std::ptrdiff_t>(tokens.size() * 9 / 10);
  Dataset data{.name = corpus.name,
               .bytes = corpus.bytes(),
               .sha256 = corpus.sha256,
               .tokenizer = std::move(tokenizer),
               .training = {tokens.begin(), tokens.begin() + held_out_start},
               .held_out = {tokens.begin() + held_out_start, tokens.end()},
               .files = corpus.files,
               .left_out = corpus.left_out};
  // A window needs one token more than its context: the last target.
  const auto min_tokens = static_cast<std::size_t>(context) + 1;
  if (data.held_out.size() < min_tokens || data.training.size() < min_tokens)
    throw Error(expected_got(corpus.name,
                             "at least " + std::to_string(10 * min_tokens) + " tokens, for a context of " +
                                 std::to_string(context) + " in the tenth that is held out",
                             std::to_string(tokens.size())));
  return data;
}

Dataset make_dataset(const Corpus& corpus, std::string_view tokenizer_kind, std::int64_t context,
                     std::int64_t vocabulary) {
  // File by file, so that the message can name the file.
  if (tokenizer_kind == "character")
    for (const auto& file : corpus.files)
      expect_characters(std::string_view(corpus.text)
                            .substr(static_cast<std::size_t>(file.offset), static_cast<std::size_t>(file.bytes)),
                        file.path.string());
  std::string_view learned_from = corpus.text;
  if (tokenizer_kind == BytePairTokenizer::name) learned_from = learned_from.substr(0, learned_from.size() * 9 / 10);
  return make_dataset(corpus, make_tokenizer(tokenizer_kind, learned_from, corpus.name, vocabulary), context);
}

std::int64_t limited_window_count(std::int64_t all, std::int64_t context, std::int64_t tokens) {
  return tokens == 0 ? all : std::clamp<std::int64_t>(tokens / context, 1, all);
}

std::int64_t held_out_window_count(const Dataset& data, std::int64_t context, std::int64_t tokens) {
  return limited_window_count((std::ssize(data.held_out) - 1) / context, context, tokens);
}

}  // namespace cogwheel::text
