#include "cogwheel/research/inspect/study_text.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>

#include "cogwheel/core/error.h"
#include "cogwheel/tasks/language/language_model.h"
#include "cogwheel/tasks/language/passage.h"
#include "cogwheel/text/sentence_tokenizer.h"
#include "cogwheel/text/text_tokens.h"
#include "cogwheel/text/tokenizer.h"

namespace cogwheel::inspect {

std::vector<Token> tokens_of_text(const StudiedRun& run, std::string_view text, std::string_view what) {
  if (!run.tokenizer)
    throw UsageError(expected_got(run.name, "a run with a tokenizer", "one of " + run.config.task.name));
  std::vector<Token> tokens = text::tokens_of(*run.tokenizer, text, what);
  if (tokens.size() < 2) throw UsageError(expected_got(what, "two tokens or more", std::to_string(tokens.size())));
  return tokens;
}

static std::int64_t shown(const StudiedRun& run, std::int64_t count) {
  return std::min({count, std::ssize(run.text), (*run.model)->longest_text()});
}

at::Tensor token_row(const StudiedRun& run, std::int64_t count) {
  at::Tensor row = at::empty({1, shown(run, count)}, at::kLong);
  for (std::int64_t place = 0; place < row.size(1); ++place)
    row[0][place] = static_cast<std::int64_t>(run.text[static_cast<std::size_t>(place)]);
  return row;
}

std::vector<std::string> token_labels(const StudiedRun& run, std::int64_t count) {
  const auto* const sentences = dynamic_cast<const text::SentenceTokenizer*>(run.tokenizer.get());
  const auto label = [&](Token token) {
    return sentences ? sentences->piece(token) : tasks::language::token_label(*run.tokenizer, token);
  };
  std::vector<std::string> labels;
  for (std::int64_t place = 0; place < shown(run, count); ++place)
    labels.push_back(label(run.text[static_cast<std::size_t>(place)]));
  return labels;
}

}  // namespace cogwheel::inspect
