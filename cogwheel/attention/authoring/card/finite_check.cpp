#include "cogwheel/attention/authoring/card/finite_check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "cogwheel/attention/authoring/card/drawn_numbers.h"
#include "cogwheel/attention/authoring/card/tried_scores.h"
#include "cogwheel/attention/authoring/numbers_as_text.h"
#include "cogwheel/core/error.h"

namespace cogwheel::authoring {
namespace {

struct Fault {
  std::string quantity;
  double value;
  bool is_single = false;  // in fp32 alone

  std::string place() const { return is_single ? " in fp32" : ""; }
};

std::string derivative_of(const MeasuredMap& map, const char* function, std::size_t variable) {
  std::string text = std::string("derivative of ") + function;
  if (variable > 0) text += " by " + map.scalar_names()[variable - 1];
  return text;
}

// The first of f, g, N and their derivatives that is not finite in type T, in an order in which each depends on earlier
// ones. `Computed` is the compute dtype.
template <class T, class Computed>
std::optional<Fault> fault_of(const MeasuredMap& map, double score) {
  const auto held = [](auto value) { return static_cast<double>(static_cast<T>(value)); };
  const auto is_bad = [&](auto value) { return !std::isfinite(held(value)); };
  const double shift = map.shift_of({&score, 1});
  if (is_bad(shift)) return Fault{"energy", held(shift)};
  const TermsAtScore<Computed> at = map.terms<Computed>(score, {.visible = 64, .shift = shift});
  if (is_bad(at.value.weight)) return Fault{"f", held(at.value.weight)};
  if (is_bad(at.value.mass)) return Fault{"g", held(at.value.mass)};
  for (std::size_t i = 0; i < at.derivatives.size(); ++i) {
    if (is_bad(at.derivatives[i].weight)) return Fault{derivative_of(map, "f", i), held(at.derivatives[i].weight)};
    if (is_bad(at.derivatives[i].mass)) return Fault{derivative_of(map, "g", i), held(at.derivatives[i].mass)};
  }
  for (const double keys : {1.0, 64.0, 4096.0}) {
    const auto n =
        map.normalizer<Computed>(static_cast<Computed>(keys) * at.value.mass, {.visible = keys, .shift = shift});
    const std::string of_keys = keys == 1 ? " of one key" : " of " + exact_text(keys) + " keys";
    if (is_bad(n.value)) return Fault{"N" + of_keys, held(n.value)};
    for (std::size_t i = 0; i < n.derivatives.size(); ++i)
      if (is_bad(n.derivatives[i])) return Fault{derivative_of(map, "N", i) + of_keys, held(n.derivatives[i])};
  }
  return std::nullopt;
}

// A shift is only right for an exponent of the same type, and a map gives exponents in float64 only: for a map with an
// energy, numbers are computed in float64 and rounded to fp32. check_kernel checks how its kernels compute them.
template <class T>
std::optional<Fault> fault_in(const MeasuredMap& map, double score) {
  return map.has_energy() ? fault_of<T, double>(map, score) : fault_of<T, T>(map, score);
}

std::optional<Fault> fault_at(const MeasuredMap& map, double score) {
  if (auto fault = fault_in<double>(map, score)) return fault;
  auto fault = fault_in<float>(map, score);
  if (fault) fault->is_single = true;
  return fault;
}

bool overflows(const MeasuredMap& map, double score) {
  const auto in_single = fault_in<float>(map, score), in_double = fault_in<double>(map, score);
  return in_single && std::isinf(in_single->value) && !(in_double && std::isnan(in_double->value));
}

// Where overflow begins on one side, with no finite scores beyond: the last finite size and the first that is not.
struct Edge {
  double held, beyond;
};
std::optional<Edge> overflow_edge(const MeasuredMap& map, const std::vector<double>& scores, double side) {
  Edge edge{.held = 0, .beyond = 0};
  for (auto score = scores.rbegin(); score != scores.rend(); ++score) {
    if (*score * side < 0) continue;
    edge.held = std::abs(*score);
    if (!overflows(map, *score)) break;
    edge.beyond = edge.held;
  }
  if (edge.beyond == 0) return std::nullopt;
  for (int halving = 0; edge.held > 0 && halving < 60; ++halving) {
    const double middle = (edge.held + edge.beyond) / 2;
    (overflows(map, side * middle) ? edge.beyond : edge.held) = middle;
  }
  return edge;
}

// Whether anything has grown to near the limit of fp32. If not, infinity beyond that score is not an overflow of the
// result: it is a division by 0, or an overflow in an intermediate step.
bool has_grown(const MeasuredMap& map, float score) {
  constexpr double large = 1e-9 * std::numeric_limits<float>::max();
  constexpr double keys = 4096;
  const TermsAtScore<double> at = map.terms<double>(score, {.visible = 64, .shift = 0});
  const NormalizerAtMass<double> n = map.normalizer<double>(keys * at.value.mass, {.visible = keys, .shift = 0});
  std::vector<double> values{at.value.weight, at.value.mass, n.value};
  for (const Terms<double>& each : at.derivatives) values.insert(values.end(), {each.weight, each.mass});
  values.insert(values.end(), n.derivatives.begin(), n.derivatives.end());
  return std::any_of(values.begin(), values.end(), [](double value) { return std::abs(value) > large; });
}

// One problem for each quantity, at the smallest of its scores.
void check_scores(const MeasuredMap& map, Finiteness& found) {
  const std::vector<double> scores = tried_scores(map.largest_score());
  found.max_score = found.highest = map.largest_score();
  found.lowest = -found.max_score;
  if (!map.has_energy())
    for (const double side : {1.0, -1.0}) {
      const auto edge = overflow_edge(map, scores, side);
      if (!edge) continue;
      (side > 0 ? found.highest : found.lowest) = side * edge->held;
      const bool overflows_early = edge->held < min_range;
      if (!overflows_early && has_grown(map, static_cast<float>(side * edge->held))) continue;
      const Fault fault = *fault_at(map, side * edge->beyond);
      found.problems.push_back(expected_got(
          map.name() + ": " + fault.quantity + " at s = " + number_text(side * edge->beyond) + fault.place(),
          overflows_early ? "finite numbers for |s| up to " + exact_text(min_range) : "a finite number",
          exact_text(fault.value)));
    }
  struct Seen {
    double score;
    Fault fault;
    int more;
  };
  std::vector<Seen> faults;
  for (const double score : scores) {
    if (score > found.highest || score < found.lowest) continue;
    const auto fault = fault_at(map, score);
    if (!fault) continue;
    const auto known = std::find_if(faults.begin(), faults.end(),
                                    [&](const Seen& seen) { return seen.fault.quantity == fault->quantity; });
    if (known == faults.end())
      faults.push_back({score, *fault, 0});
    else
      ++known->more;
  }
  for (const Seen& seen : faults)
    found.problems.push_back(
        expected_got(map.name() + ": " + seen.fault.quantity + " at s = " + exact_text(seen.score) + seen.fault.place(),
                     "a finite number", exact_text(seen.fault.value)) +
        (seen.more == 0 ? "" : ", and at " + std::to_string(seen.more) + " more of the scores tried"));
}

struct RowOfScores {
  std::string text;
  std::vector<double> scores;
};

std::vector<RowOfScores> rows_to_try(const MeasuredMap& map) {
  const double max_score = map.largest_score();
  std::vector<RowOfScores> rows;
  for (const double size : {0.0, 1e-30, 1e-10, 0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 100.0, 1e3, 1e4})
    for (const double s : {size, -size}) {
      if (size > max_score || (size == 0 && std::signbit(s))) continue;
      const std::string text = exact_text(s);
      rows.push_back({"one score of " + text, {s}});
      rows.push_back({"64 scores of " + text, std::vector<double>(64, s)});
      for (const double other : {-s, 0.0, max_score, -max_score, max_score / 10, -max_score / 10})
        rows.push_back({"scores of " + text + " and " + exact_text(other), {s, other}});
    }
  for (const double size : {0.01, 1.0, 10.0})
    for (std::uint64_t seed = 0; seed < 16; ++seed)
      rows.push_back({"64 random scores of size " + exact_text(size), drawn_scores(64, size, map.is_cosine(), seed)});
  return rows;
}

// As for fault_in.
template <class T, class Computed>
std::optional<std::string> fault_in_row(const MeasuredMap& map, const std::vector<double>& scores) {
  const Row<double> row{.visible = static_cast<double>(scores.size()), .shift = map.shift_of(scores)};
  std::vector<Terms<Computed>> terms;
  Computed mass = 0;
  for (const double s : scores) {
    terms.push_back(map.terms<Computed>(s, row).value);
    mass += terms.back().mass;
  }
  const auto total = static_cast<T>(map.normalizer<Computed>(mass, row).value);
  for (const Terms<Computed>& term : terms)
    if (const T weight = static_cast<T>(term.weight) / total; !std::isfinite(weight))
      return exact_text(weight) + (total == 0 ? ": N is 0" : "");
  return std::nullopt;
}

// At most one problem, of the simplest row that has one.
void check_rows(const MeasuredMap& map, Finiteness& found) {
  std::string problem;
  int more = -1;
  for (const RowOfScores& row : rows_to_try(map)) {
    if (!std::all_of(row.scores.begin(), row.scores.end(), [&](double s) { return found.is_well_within(s); })) continue;
    // A problem of a score is not reported again for its rows.
    if (std::any_of(row.scores.begin(), row.scores.end(), [&](double s) { return fault_at(map, s).has_value(); }))
      continue;
    auto fault = fault_in_row<double, double>(map, row.scores);
    const bool is_single = !fault;
    if (!fault)
      fault =
          map.has_energy() ? fault_in_row<float, double>(map, row.scores) : fault_in_row<float, float>(map, row.scores);
    if (!fault) continue;
    if (++more == 0)
      problem = expected_got(map.name() + ": weights of a row of " + row.text + (is_single ? " in fp32" : ""),
                             "finite numbers", *fault);
  }
  if (more > 0) problem += ", and in " + std::to_string(more) + " more of the rows tried";
  if (more >= 0) found.problems.push_back(std::move(problem));
}

}  // namespace

Finiteness check_finite(const MeasuredMap& map) {
  Finiteness found{};
  check_scores(map, found);
  check_rows(map, found);
  return found;
}

}  // namespace cogwheel::authoring
