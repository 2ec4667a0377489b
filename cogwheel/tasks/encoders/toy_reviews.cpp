#include "cogwheel/tasks/encoders/toy_reviews.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/core/random.h"

namespace cogwheel::tasks::encoders {
namespace {

constexpr std::uint32_t review_stream = stream_named("rev");  // 1 more for what is held out

constexpr std::array<std::string_view, 4> wholes{"film", "movie", "picture", "story"};
constexpr std::array<std::string_view, 10> parts{"acting", "plot",     "music",  "ending",  "cast",
                                                 "script", "dialogue", "camera", "costume", "opening"};
constexpr std::array<std::string_view, 12> good{"superb",     "funny",    "moving",   "clever",
                                                "lovely",     "gripping", "warm",     "wonderful",
                                                "delightful", "flawless", "graceful", "peerless"};
constexpr std::array<std::string_view, 12> bad{"dull",  "boring",   "clumsy", "silly",    "tedious",   "weak",
                                               "stale", "dreadful", "awful",  "hopeless", "tasteless", "shameful"};
constexpr std::array<std::string_view, 3> negations{"not", "never", "hardly"};
constexpr std::array<std::string_view, 4> degrees{"very", "really", "quite", "so"};
constexpr std::array<std::string_view, 3> joints{"and", "but", "while"};
// Around the subject, and before the adjective; a negation stands between the second and the adjective.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> forms{
    {{"the", "is"}, {"the", "was"}, {"this", "is"}, {"i found the", ""}}};

constexpr double negated = 0.4;
// What does not stand before these ends is a piece of its own.
constexpr std::array<std::string_view, 2> endings{"ful", "less"};

template <std::size_t size>
std::string_view any(NumberedDraws& draws, const std::array<std::string_view, size>& words) {
  return words[draws.below(size)];
}

void append(std::string& text, std::string_view words) {
  if (words.empty()) return;
  if (!text.empty()) text += ' ';
  text += words;
}

// Says whether the clause praises its subject, as it shall if that is given.
bool append_clause(std::string& text, NumberedDraws& draws, std::string_view subject,
                   std::optional<bool> praises = std::nullopt) {
  const auto& [before, verb] = forms[draws.below(forms.size())];
  const bool is_negated = draws.with_probability(negated);
  const bool is_good = praises ? *praises != is_negated : draws.with_probability(0.5);
  append(text, before);
  append(text, subject);
  append(text, verb);
  if (is_negated) append(text, any(draws, negations));
  if (draws.with_probability(0.3)) append(text, any(draws, degrees));
  append(text, is_good ? any(draws, good) : any(draws, bad));
  return is_good != is_negated;
}

void add_pieces(std::set<std::string>& pieces, std::string_view word) {
  for (const std::string_view ending : endings) {
    if (!word.ends_with(ending)) continue;
    pieces.insert("##" + std::string(ending));
    word.remove_suffix(ending.size());
  }
  pieces.emplace(word);
}

SentenceRows reviews(const text::WordPieceTokenizer& tokenizer, std::uint64_t seed, bool held_out, std::int64_t count) {
  SentenceRows rows;
  for (std::int64_t index = 0; index < count; ++index) {
    ToyReview review = toy_review(seed, held_out, index);
    rows.tokens.add(tokenizer.encode(review.text), {}, index);
    rows.labels.push_back(review.positive ? 1 : 0);
    rows.texts.push_back(std::move(review.text));
  }
  return rows;
}

}  // namespace

namespace {

// A tenth of all reviews, whatever the seed.
bool is_held_out(const std::string& text) { return sha256(text).substr(0, 8) < "1999999a"; }

ToyReview drawn_review(NumberedDraws& draws) {
  ToyReview review{.text = "", .positive = false, .clauses = 1 + static_cast<std::int64_t>(draws.below(3))};
  const std::int64_t about_whole = static_cast<std::int64_t>(draws.below(static_cast<std::size_t>(review.clauses)));
  // Two parts that differ.
  const std::size_t first_part = draws.below(parts.size());
  const std::size_t second_part = (first_part + 1 + draws.below(parts.size() - 1)) % parts.size();
  bool first_used = false;
  for (std::int64_t clause = 0; clause < review.clauses; ++clause) {
    if (clause > 0) {
      append(review.text, ",");
      append(review.text, any(draws, joints));
    }
    const std::string_view subject =
        clause == about_whole ? any(draws, wholes) : parts[std::exchange(first_used, true) ? second_part : first_part];
    const bool praises = append_clause(review.text, draws, subject);
    if (clause == about_whole) review.positive = praises;
    review.said.push_back({subject, praises});
  }
  return review;
}

}  // namespace

ToyReview toy_review(std::uint64_t seed, bool held_out, std::int64_t index) {
  NumberedDraws draws(seed, review_stream + (held_out ? 1 : 0), static_cast<std::uint64_t>(index));
  ToyReview review = drawn_review(draws);
  while (is_held_out(review.text) != held_out) review = drawn_review(draws);
  return review;
}

std::string toy_clause(NumberedDraws& draws, const ToyClause& said) {
  std::string text;
  append_clause(text, draws, said.subject, said.praises);
  return text;
}

std::string_view unsaid_subject(NumberedDraws& draws, const ToyReview& review) {
  const auto is_said = [&](std::string_view subject) {
    return std::any_of(review.said.begin(), review.said.end(),
                       [&](const ToyClause& clause) { return clause.subject == subject; });
  };
  std::string_view subject = any(draws, parts);
  while (is_said(subject)) subject = any(draws, parts);
  return subject;
}

std::vector<std::string> toy_review_classes() { return {"negative", "positive"}; }

std::shared_ptr<const text::WordPieceTokenizer> toy_review_tokenizer() {
  static const std::shared_ptr<const text::WordPieceTokenizer> tokenizer = [] {
    std::set<std::string> words{",", "i", "found", "the", "this", "is", "was"};
    const auto add = [&](const auto& list) {
      for (const std::string_view word : list) add_pieces(words, word);
    };
    add(wholes), add(parts), add(good), add(bad), add(negations), add(degrees), add(joints);
    const auto& specials = text::WordPieceTokenizer::special_pieces;
    std::vector<std::string> pieces(specials.begin(), specials.end());
    pieces.insert(pieces.end(), words.begin(), words.end());
    return std::make_shared<text::WordPieceTokenizer>(std::move(pieces), false, "toy reviews");
  }();
  return tokenizer;
}

SentenceCorpus toy_review_corpus(std::uint64_t seed, std::int64_t training, std::int64_t held_out) {
  SentenceCorpus corpus;
  corpus.name = "toy reviews";
  corpus.tokenizer = toy_review_tokenizer();
  corpus.classes = toy_review_classes();
  corpus.training = reviews(*corpus.tokenizer, seed, false, training);
  corpus.held_out = reviews(*corpus.tokenizer, seed, true, held_out);
  Sha256 all;
  for (const SentenceRows* rows : {&corpus.training, &corpus.held_out})
    for (std::int64_t row = 0; row < rows->size(); ++row) {
      const std::string line = rows->texts[static_cast<std::size_t>(row)] + "\n";
      all.add(line);
      corpus.bytes += std::ssize(line);
      corpus.longest = std::max(corpus.longest, rows->length(row));
    }
  corpus.sha256 = all.digits();
  return corpus;
}

}  // namespace cogwheel::tasks::encoders
