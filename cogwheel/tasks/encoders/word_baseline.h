// What counts of words can do, without their order: numbers to show beside those of an encoder of sentences.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cogwheel/tasks/encoders/sentence_corpus.h"

namespace cogwheel::tasks::encoders {

// Multinomial naive Bayes with add-one smoothing: Manning, Raghavan and Schütze, "Introduction to Information
// Retrieval" (2008), section 13.2. Words are those of text/bert_words.h in lower case.
//
//   argmax_c  log(rows of c / rows) + Σ_w log((count of w in c + 1) / (words in c + different words))
//
// A word that training lacks has a count of 0 in every class.
class NaiveBayes {
 public:
  // Of rows with labels, at least one; labels are 0 to classes − 1.
  NaiveBayes(const SentenceRows& rows, std::int64_t classes);
  // The lower one of classes that are as likely. Throws Error where the text is not UTF-8.
  std::int64_t classify(std::string_view text) const;
  // Of rows with labels, at least one: which part it classifies right.
  double accuracy(const SentenceRows& rows) const;

 private:
  std::vector<double> prior_;                                    // log, by class; a class without rows has −∞
  std::vector<double> words_in_;                                 // by class
  std::unordered_map<std::string, std::vector<double>> counts_;  // of a word, by class
};

// How often each token occurs. Special tokens are not counted: nothing has to predict them.
class Unigrams {
 public:
  Unigrams(const SentenceRows& rows, const text::WordPieceTokenizer& tokenizer);

  std::int64_t tokens() const { return tokens_; }
  // −Σ p log p in nats per token: the cross-entropy that no guess without context can better on the same tokens. 0
  // without tokens.
  double entropy() const;
  // In nats per token of `held_out`, which has one at least, of these frequencies with add-one smoothing: what a guess
  // without context reaches on other text. Of the same tokenizer.
  double cross_entropy(const Unigrams& held_out) const;

 private:
  std::vector<std::int64_t> counts_;     // by token
  std::int64_t tokens_ = 0, kinds_ = 0;  // `kinds_`: tokens of the vocabulary that are not special
};

}  // namespace cogwheel::tasks::encoders
