#include "cogwheel/research/labs/lecture/word_errors.h"

#include <algorithm>
#include <utility>

namespace cogwheel::labs {

std::int64_t word_edits(const std::vector<Token>& from, const std::vector<Token>& to) {
  std::vector<std::int64_t> row(to.size() + 1);
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = static_cast<std::int64_t>(i);
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::int64_t diagonal = std::exchange(row[0], static_cast<std::int64_t>(i) + 1);
    for (std::size_t j = 0; j < to.size(); ++j) {
      const std::int64_t replaced = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

void WordErrors::add(const std::vector<Token>& found, const std::vector<Token>& truth) {
  const std::int64_t more = word_edits(found, truth);
  ++sentences, wrong_sentences += more > 0 ? 1 : 0;
  words += std::ssize(truth), edits += more;
}

void WordErrors::add(const WordErrors& more) {
  sentences += more.sentences, wrong_sentences += more.wrong_sentences;
  words += more.words, edits += more.edits;
}

double WordErrors::rate() const { return words == 0 ? 0 : static_cast<double>(edits) / static_cast<double>(words); }
double WordErrors::right_sentences() const {
  return sentences == 0 ? 0 : 1 - static_cast<double>(wrong_sentences) / static_cast<double>(sentences);
}

WordErrors quarter_of(const ErrorsByLength& errors, bool longest) {
  std::int64_t all = 0;
  for (const auto& [length, each] : errors) all += each.sentences;
  WordErrors sum;
  const auto add = [&](const auto& entry) {
    if (4 * sum.sentences < all) sum.add(entry.second);
  };
  if (longest)
    std::for_each(errors.rbegin(), errors.rend(), add);
  else
    std::for_each(errors.begin(), errors.end(), add);
  return sum;
}

}  // namespace cogwheel::labs
