#include "cogwheel/pages/headline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace cogwheel::pages {

std::string told(std::vector<Told> each) {
  std::erase_if(each, [](const Told& one) { return !std::isfinite(one.value); });
  const auto words = [](const Told& one) { return fmt::format("{} ({})", one.text, one.name); };
  if (each.empty()) return "";
  constexpr std::size_t readable = 3;
  if (each.size() > readable) {
    const auto [low, high] = std::ranges::minmax_element(each, {}, &Told::value);
    return words(*low) + " to " + words(*high);
  }
  std::string text;
  for (std::size_t at = 0; at < each.size(); ++at)
    text += (at == 0 ? "" : at + 1 == each.size() ? " and " : ", ") + words(each[at]);
  return text;
}

std::string told_percent(double share) {
  const double percent = 100 * share;
  return fmt::format("{:.{}f} %", percent, std::abs(percent) < 9.95 && std::abs(percent) >= 0.05 ? 1 : 0);
}

}  // namespace cogwheel::pages
