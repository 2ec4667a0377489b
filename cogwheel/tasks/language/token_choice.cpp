#include "cogwheel/tasks/language/token_choice.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "cogwheel/core/error.h"
#include "cogwheel/core/random.h"

namespace cogwheel::tasks::language {
namespace {

// In [0, 1), of 53 bits.
double uniform_for(std::uint64_t seed, std::uint64_t sequence, std::uint64_t place) {
  const PhiloxWords words = philox({static_cast<std::uint32_t>(place), static_cast<std::uint32_t>(sequence),
                                    static_cast<std::uint32_t>(sequence >> 32), stream_named("text")},
                                   philox_key(seed));
  return static_cast<double>((std::uint64_t{words[0]} << 32 | words[1]) >> 11) * 0x1p-53;
}

// Larger values first; among equals the lower token.
auto before(std::span<const float> values) {
  return [values](Token a, Token b) {
    const float of_a = values[static_cast<std::size_t>(a)], of_b = values[static_cast<std::size_t>(b)];
    return of_a > of_b || (of_a == of_b && a < b);
  };
}

// The first `count` in order, of a selection: a vocabulary is not sorted for a few tokens.
template <class Before>
void order_first(std::vector<Token>& tokens, std::size_t from, std::size_t count, const Before& comes_before) {
  const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(from);
  const auto end = tokens.begin() + static_cast<std::ptrdiff_t>(std::min(from + count, tokens.size()));
  if (end != tokens.end()) std::nth_element(begin, end, tokens.end(), comes_before);
  std::sort(begin, end, comes_before);
}

std::vector<Token> all_tokens(std::size_t count) {
  std::vector<Token> tokens(count);
  std::iota(tokens.begin(), tokens.end(), Token{0});
  return tokens;
}

}  // namespace

double log_total(std::span<const float> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double{logit} - largest);
  return largest + std::log(sum);
}

std::vector<TokenProbability> likeliest_tokens(std::span<const float> logits, std::int64_t k, std::int64_t vocabulary) {
  std::vector<Token> tokens =
      all_tokens(vocabulary == 0 ? logits.size() : std::min(logits.size(), static_cast<std::size_t>(vocabulary)));
  const std::size_t count = std::min(static_cast<std::size_t>(k), tokens.size());
  order_first(tokens, 0, count, before(logits));
  const double total = log_total(logits);
  std::vector<TokenProbability> found;
  for (std::size_t index = 0; index < count; ++index)
    found.push_back({tokens[index], double{logits[static_cast<std::size_t>(tokens[index])]} - total});
  return found;
}

ChosenToken TokenChoice::operator()(std::span<const float> logits, std::span<const Token> text) {
  if (!std::all_of(logits.begin(), logits.end(), [](float logit) { return std::isfinite(logit); }))
    throw Error(expected_got("sample", "finite logits", "NaN or infinity from the model"));
  const auto drawn_from = static_cast<std::ptrdiff_t>(
      options_.vocabulary == 0 ? std::ssize(logits) : std::min(options_.vocabulary, std::ssize(logits)));
  values_.assign(logits.begin(), logits.begin() + drawn_from);
  if (options_.repetition_penalty != 1) {
    const auto penalty = static_cast<float>(options_.repetition_penalty);
    for (const Token token : text) {  // once for each token, however often it comes
      if (token >= drawn_from) continue;
      const auto place = static_cast<std::size_t>(token);
      values_[place] = logits[place] > 0 ? logits[place] / penalty : logits[place] * penalty;
    }
  }
  ChosenToken chosen{.token = 0, .log_probability = std::numeric_limits<double>::quiet_NaN()};
  chosen.token = options_.temperature == 0
                     ? static_cast<Token>(std::max_element(values_.begin(), values_.end()) - values_.begin())
                     : drawn(text.size());
  if (options_.likeliest >= 0) {
    chosen.log_probability = double{logits[static_cast<std::size_t>(chosen.token)]} - log_total(logits);
    chosen.likeliest = likeliest_tokens(logits, options_.likeliest, drawn_from);
  }
  return chosen;
}

// Keeps what is not below the k-th largest.
void TokenChoice::keep_likeliest(std::int64_t count) {
  if (count == 0 || count >= std::ssize(candidates_)) return;
  std::vector<float> ordered = values_;
  const auto last = ordered.begin() + (count - 1);
  std::nth_element(ordered.begin(), last, ordered.end(), std::greater<>());
  std::erase_if(candidates_, [&](Token token) { return values_[static_cast<std::size_t>(token)] < *last; });
}

// `weights_` belong to the candidates. The likeliest come first, in parts that are sorted only as far as they are
// needed.
void TokenChoice::keep_probability(double probability) {
  if (probability >= 1) return;
  const double wanted = probability * std::accumulate(weights_.begin(), weights_.end(), 0.0);
  std::vector<double> of_token(values_.size());
  for (std::size_t index = 0; index < candidates_.size(); ++index)
    of_token[static_cast<std::size_t>(candidates_[index])] = weights_[index];
  double sum = 0;
  std::size_t kept = 0;
  for (std::size_t ordered = 0, part = 64; kept < candidates_.size() && (kept == 0 || sum < wanted); ++kept) {
    if (kept == ordered) {
      order_first(candidates_, ordered, part, before(values_));
      ordered += part;
      part *= 4;
    }
    sum += of_token[static_cast<std::size_t>(candidates_[kept])];
  }
  candidates_.resize(kept);
  std::sort(candidates_.begin(), candidates_.end());  // the order of the vocabulary, in which one is drawn
  weights_.clear();
  for (const Token token : candidates_) weights_.push_back(of_token[static_cast<std::size_t>(token)]);
}

Token TokenChoice::drawn(std::uint64_t place) {
  candidates_ = all_tokens(values_.size());
  keep_likeliest(options_.top_k);
  const double largest = *std::max_element(values_.begin(), values_.end());
  weights_.clear();
  for (const Token token : candidates_)
    weights_.push_back(std::exp((double{values_[static_cast<std::size_t>(token)]} - largest) / options_.temperature));
  keep_probability(options_.top_p);
  // Beside the likeliest, whose weight is 1.
  double total = 0;
  for (double& weight : weights_) {
    if (weight < options_.min_p) weight = 0;
    total += weight;
  }
  const double drawn = uniform_for(options_.seed, number_, place) * total;
  double sum = 0;
  std::size_t last = 0;
  for (std::size_t index = 0; index < candidates_.size(); ++index) {
    if (weights_[index] == 0) continue;
    last = index;
    sum += weights_[index];
    if (drawn < sum) break;
  }
  return candidates_[last];
}

}  // namespace cogwheel::tasks::language
