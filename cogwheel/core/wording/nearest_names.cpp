#include "cogwheel/core/wording/nearest_names.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace cogwheel {
namespace {

// Levenshtein distance with one row of the table in memory.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row.back();
}

std::string join(const std::vector<std::string>& names) {
  std::string joined;
  for (const auto& name : names) joined.append(joined.empty() ? "" : ", ").append(name);
  return joined;
}

}  // namespace

std::vector<std::string> nearest_names(std::string_view name, const std::vector<std::string>& known,
                                       std::size_t max_names) {
  if (name.empty()) return {};
  std::vector<std::pair<std::size_t, std::string>> ranked;
  for (const auto& candidate : known) {
    const bool contained = candidate.find(name) != std::string::npos;
    const std::size_t distance = contained ? 1 : edit_distance(name, candidate);
    if (distance <= std::max<std::size_t>(2, candidate.size() / 3)) ranked.emplace_back(distance, candidate);
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> nearest;
  for (std::size_t i = 0; i < std::min(max_names, ranked.size()); ++i) nearest.push_back(ranked[i].second);
  return nearest;
}

std::string expected_names(std::string_view name, const std::vector<std::string>& known) {
  constexpr std::size_t readable = 20;
  if (name.empty() && known.size() > readable) return "one of " + std::to_string(known.size()) + " names";
  const auto nearest = nearest_names(name, known);
  if (nearest.empty()) return "one of " + join(known);
  return join(nearest) + " (the nearest of " + std::to_string(known.size()) + " names)";
}

}  // namespace cogwheel
