#include "cogwheel/attention/authoring/card/function_measures.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cogwheel/attention/authoring/card/jumps.h"
#include "cogwheel/attention/authoring/card/weights_seen.h"
#include "cogwheel/attention/authoring/derivatives_check.h"
#include "cogwheel/attention/authoring/numbers_as_text.h"
#include "cogwheel/core/error.h"

namespace cogwheel::authoring {
namespace {

void add_scalars(const MeasuredMap& map, NumericsCard& card) {
  std::string text;
  for (std::size_t i = 0; i < map.scalars().size(); ++i)
    text += (i == 0 ? "" : ", ") + map.scalar_names()[i] +
            (std::isnan(map.scalars()[i]) ? " not given" : " = " + exact_text(map.scalars()[i]));
  if (!text.empty()) card.facts.emplace_back("parameters", text);
}

// Found by bisection, so 0 except for rounding.
std::string place_text(double score) { return number_text(std::abs(score) < 1e-12 ? 0 : score); }

// f or g with a fixed shift.
std::function<double(double)> function_of(const MeasuredMap& map, bool mass, double shift) {
  return [&map, mass, shift](double s) {
    const Terms<double> terms = map.functions().terms(map.theta(), s, {.visible = 64, .shift = shift});
    return mass ? terms.mass : terms.weight;
  };
}

void measure_derivatives(const MeasuredMap& map, NumericsCard& card) {
  CheckedRange checked;
  try {
    checked = check_derivatives(card.mechanism, map.functions(), map.scalars(), map.largest_score());
  } catch (const UsageError& error) {
    card.facts.emplace_back("derivatives", "disagree with finite differences");
    card.problems.emplace_back(error.what());
    return;
  }
  std::string text = "agree with finite differences for ";
  if (checked.lowest == -checked.highest)
    text += "|s| up to " + number_text(checked.highest);
  else
    text += "s from " + number_text(checked.lowest) + " to " + number_text(checked.highest);
  if (checked.lowest == checked.highest) text = "not checked: finite differences converge nowhere";
  const double zero = 0, shift = map.shift_of({&zero, 1});
  const Terms<double> chosen = map.functions().derivatives(map.theta(), 0, {.visible = 64, .shift = shift});
  std::string at_zero;
  if (std::isfinite(chosen.weight) && is_kink(function_of(map, false, shift), 0))
    at_zero = "f′ = " + number_text(chosen.weight);
  if (std::isfinite(chosen.mass) && is_kink(function_of(map, true, shift), 0))
    at_zero += (at_zero.empty() ? "" : ", ") + ("g′ = " + number_text(chosen.mass));
  if (!at_zero.empty()) text += "; at 0, where there are none, " + at_zero;
  card.facts.emplace_back("derivatives", text);
}

void add_range(const MeasuredMap& map, const Finiteness& found, NumericsCard& card) {
  std::string text;
  if (!found.problems.empty()) {
    text = "some values are not finite: see the problems";
  } else if (map.is_cosine()) {
    text = "none: a cosine is at most 1";
  } else if (map.has_energy()) {
    text = "none at scores of ±1e4: the energy bounds f and g";
  } else {
    const bool above = found.highest<found.max_score, below = found.lowest> - found.max_score;
    if (above && below && found.highest == -found.lowest)
      text = "fp32 beyond |s| = " + number_text(found.highest);
    else if (above || below)
      text = std::string("fp32 ") + (above ? "above s = " + number_text(found.highest) : "") +
             (above && below ? " and " : "") + (below ? "below s = " + number_text(found.lowest) : "");
    text = text.empty() ? "none up to scores of ±1e4, without an energy" : text + ": there is no energy";
  }
  card.facts.emplace_back("overflow", text);
}

// f and g with the shift of each score, so that they are finite at any score; where they seem to jump, again with a
// fixed shift, because the energy may jump too.
std::vector<Jump> jumps_of(const MeasuredMap& map, bool mass) {
  const auto shift_at = [&](double s) { return map.shift_of({&s, 1}); };
  const std::vector<Jump> seen = find_jumps([&](double s) { return function_of(map, mass, shift_at(s))(s); },
                                            -map.largest_score(), map.largest_score());
  std::vector<Jump> jumps;
  for (const Jump& jump : seen) {
    const auto plain = jump_at(function_of(map, mass, 0), jump.at);
    const auto shifted = jump_at(function_of(map, mass, shift_at(jump.at)), jump.at);
    if (plain)
      jumps.push_back(*plain);
    else if (shifted)
      jumps.push_back(*shifted);
    else if (jump.is_pole)
      jumps.push_back(jump);
  }
  return jumps;
}

// Whether f or g changes much when rounding flips the sign of a score: at a jump, or where it is as steep as one.
bool moves_at_zero(const MeasuredMap& map) {
  const double one = 1, shift = map.shift_of({&one, 1});
  for (const bool mass : {false, true}) {
    const auto function = function_of(map, mass, shift);
    constexpr double rounding = 1e-7;
    if (std::abs(function(rounding) - function(-rounding)) >
        0.1 * std::max(std::abs(function(1)), std::abs(function(-1))))
      return true;
  }
  return false;
}

std::string text_of(const std::string& function, const Jump& jump) {
  std::string from = number_text(jump.before), to = number_text(jump.after);
  if (from == to) from = exact_text(jump.before), to = exact_text(jump.after);
  return function + " jumps at s = " + place_text(jump.at) + ", from " + from + " to " + to;
}

// Returns whether f or g jumps at 0. Poles are problems unless one about non-finite values was reported before.
bool measure_jumps(const MeasuredMap& map, bool is_finite, NumericsCard& card) {
  constexpr std::size_t max_shown = 4;
  std::string text;
  const auto add = [&text](const std::string& more) { text += (text.empty() ? "" : "; ") + more; };
  bool at_zero = false;
  for (const bool mass : {false, true}) {
    const std::string of = mass ? "g" : "f";
    std::vector<Jump> jumps = jumps_of(map, mass);
    const auto poles =
        std::stable_partition(jumps.begin(), jumps.end(), [](const Jump& jump) { return !jump.is_pole; });
    const auto count = static_cast<std::size_t>(poles - jumps.begin()), of_poles = jumps.size() - count;
    for (std::size_t i = 0; i < std::min(count, max_shown); ++i) add(text_of(of, jumps[i]));
    if (count > max_shown) add(of + " jumps at " + std::to_string(count - max_shown) + " more scores at least");
    if (of_poles == 1) add(of + " has a pole at s = " + place_text(poles->at));
    if (of_poles > 1)
      add(of + " has " + std::to_string(of_poles) + " poles at least, one at s = " + place_text(poles->at));
    if (of_poles > 0 && std::exchange(is_finite, false))
      card.problems.push_back(expected_got(card.mechanism + ": " + of + " near s = " + place_text(poles->at),
                                           "finite numbers", "a pole: it grows without bound"));
    at_zero |= std::any_of(jumps.begin(), jumps.end(), [](const Jump& jump) { return std::abs(jump.at) < 1e-6; });
  }
  card.facts.emplace_back("jumps", text.empty() ? "none" : text);
  return at_zero;
}

}  // namespace

FunctionMeasures measure_functions(const MeasuredMap& map, std::string_view definition, NumericsCard& card) {
  add_scalars(map, card);
  measure_weights(map, card);
  measure_derivatives(map, card);
  check_formula(map, definition, card);
  FunctionMeasures found{.finite = check_finite(map), .moves_at_zero = false};
  card.problems.insert(card.problems.end(), found.finite.problems.begin(), found.finite.problems.end());
  add_range(map, found.finite, card);
  const bool jumps_at_zero = measure_jumps(map, found.finite.problems.empty(), card);
  found.moves_at_zero = jumps_at_zero || moves_at_zero(map);
  return found;
}

}  // namespace cogwheel::authoring
