#include "cogwheel/tasks/encoders/word_baseline.h"

#include <algorithm>
#include <cmath>

#include "cogwheel/text/bert_words.h"

namespace cogwheel::tasks::encoders {

NaiveBayes::NaiveBayes(const SentenceRows& rows, std::int64_t classes)
    : prior_(static_cast<std::size_t>(classes)), words_in_(static_cast<std::size_t>(classes)) {
  for (std::size_t row = 0; row < rows.texts.size(); ++row) {
    const auto label = static_cast<std::size_t>(rows.labels[row]);
    ++prior_[label];
    for (const std::string& word : text::bert_words(rows.texts[row], false)) {
      std::vector<double>& counts = counts_[word];
      counts.resize(prior_.size());
      ++counts[label];
      ++words_in_[label];
    }
  }
  for (double& prior : prior_) prior = std::log(prior / static_cast<double>(rows.texts.size()));
}

std::int64_t NaiveBayes::classify(std::string_view text) const {
  const auto different = static_cast<double>(counts_.size());
  std::vector<double> scores = prior_;
  for (const std::string& word : text::bert_words(text, false)) {
    const auto found = counts_.find(word);
    for (std::size_t label = 0; label < scores.size(); ++label)
      scores[label] +=
          std::log(((found == counts_.end() ? 0 : found->second[label]) + 1) / (words_in_[label] + different));
  }
  return std::max_element(scores.begin(), scores.end()) - scores.begin();
}

double NaiveBayes::accuracy(const SentenceRows& rows) const {
  std::int64_t right = 0;
  for (std::size_t row = 0; row < rows.texts.size(); ++row)
    right += classify(rows.texts[row]) == rows.labels[row] ? 1 : 0;
  return static_cast<double>(right) / static_cast<double>(rows.texts.size());
}

Unigrams::Unigrams(const SentenceRows& rows, const text::WordPieceTokenizer& tokenizer)
    : counts_(static_cast<std::size_t>(tokenizer.vocabulary())) {
  for (Token token = 0; token < tokenizer.vocabulary(); ++token) kinds_ += tokenizer.is_special(token) ? 0 : 1;
  for (std::int64_t row = 0; row < rows.size(); ++row)
    for (const auto& sentence : {rows.tokens.source(row), rows.tokens.target(row)})
      for (const Token token : sentence) {
        if (tokenizer.is_special(token)) continue;
        ++counts_[static_cast<std::size_t>(token)];
        ++tokens_;
      }
}

double Unigrams::entropy() const {
  double sum = 0;
  for (const std::int64_t count : counts_) {
    if (count == 0) continue;
    const double probability = static_cast<double>(count) / static_cast<double>(tokens_);
    sum -= probability * std::log(probability);
  }
  return sum;
}

double Unigrams::cross_entropy(const Unigrams& held_out) const {
  double sum = 0;
  for (std::size_t token = 0; token < counts_.size(); ++token) {
    if (held_out.counts_[token] == 0) continue;
    const double probability = static_cast<double>(counts_[token] + 1) / static_cast<double>(tokens_ + kinds_);
    sum -= static_cast<double>(held_out.counts_[token]) * std::log(probability);
  }
  return sum / static_cast<double>(held_out.tokens_);
}

}  // namespace cogwheel::tasks::encoders
