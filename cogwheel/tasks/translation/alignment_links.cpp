#include "cogwheel/tasks/translation/alignment_links.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

namespace cogwheel::tasks::translation {

std::vector<WordLink> links_of(const AlignmentWeights& weights) {
  std::vector<WordLink> links;
  for (std::int64_t target = 0; target < weights.targets; ++target) {
    std::int64_t best = weights.sources;
    float largest = 0;
    for (std::int64_t source = 0; source < weights.columns; ++source)
      if (const float size = std::abs(weights.at(target, source)); size > largest) largest = size, best = source;
    if (best < weights.sources) links.push_back({.source = best, .target = target});
  }
  return links;
}

std::vector<WordLink> links_of_words(std::span<const WordLink> links, std::span<const std::int64_t> source_words,
                                     std::span<const std::int64_t> target_words) {
  std::set<std::pair<std::int64_t, std::int64_t>> words;
  for (const WordLink& link : links)
    words.emplace(source_words[static_cast<std::size_t>(link.source)],
                  target_words[static_cast<std::size_t>(link.target)]);
  std::vector<WordLink> found;
  for (const auto& [source, target] : words) found.push_back({.source = source, .target = target});
  return found;
}

std::string pharaoh_text(std::span<const WordLink> links) {
  std::string text;
  for (const WordLink& link : links)
    text += (text.empty() ? "" : " ") + std::to_string(link.source) + "-" + std::to_string(link.target);
  return text;
}

void AlignmentError::add(std::span<const WordLink> links, std::span<const WordLink> gold) {
  all_ += std::ssize(links);
  for (const WordLink& link : gold) {
    const bool linked = std::any_of(links.begin(), links.end(), [&](const WordLink& each) {
      return each.source == link.source && each.target == link.target;
    });
    all_ += link.sure ? 1 : 0;
    right_ += !linked ? 0 : link.sure ? 2 : 1;
  }
}

double AlignmentError::rate() const {
  return all_ == 0 ? 0 : 1 - static_cast<double>(right_) / static_cast<double>(all_);
}

double reordering(std::span<const WordLink> links) {
  std::int64_t pairs = 0, reversed = 0;
  for (const WordLink& one : links)
    for (const WordLink& other : links)
      if (one.target < other.target) ++pairs, reversed += one.source > other.source ? 1 : 0;
  return pairs == 0 ? 0 : static_cast<double>(reversed) / static_cast<double>(pairs);
}

std::vector<std::int64_t> least_monotonic_first(std::span<const double> reorderings) {
  std::vector<std::int64_t> order(reorderings.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return reorderings[static_cast<std::size_t>(a)] > reorderings[static_cast<std::size_t>(b)];
  });
  return order;
}

}  // namespace cogwheel::tasks::translation
