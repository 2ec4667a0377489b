#include "cogwheel/research/labs/lab.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>

#include "cogwheel/pages/html.h"

namespace cogwheel::labs {

std::string number_for_readers(double value) {
  if (!std::isfinite(value)) return fmt::format("{}", value);
  if (value == std::round(value) && std::abs(value) < 1e15) {
    const std::string digits = pages::grouped(static_cast<std::int64_t>(std::abs(value)));
    return value < 0 ? "−" + digits : digits;
  }
  std::string text = fmt::format("{:.4g}", std::abs(value));
  if (std::abs(value) >= 1e3 && std::abs(value) < 1e15) text = pages::grouped(std::llround(std::abs(value)));
  return value < 0 ? "−" + text : text;
}

std::string Finding::relation_name(Relation relation) {
  switch (relation) {
    case Relation::near:
      return "near";
    case Relation::at_most:
      return "at_most";
    case Relation::above:
      return "above";
    case Relation::shown:
      break;
  }
  return "shown";
}

Finding::Relation Finding::find_relation(std::string_view name) {
  for (const Relation relation : {Relation::near, Relation::at_most, Relation::above})
    if (name == relation_name(relation)) return relation;
  return Relation::shown;
}

std::optional<bool> Finding::agrees() const {
  switch (relation) {
    case Relation::near:
      return std::abs(ours - expected) <= tolerance;
    case Relation::at_most:
      return ours <= expected;
    case Relation::above:
      return ours > expected;
    case Relation::shown:
      break;
  }
  return std::nullopt;
}

std::string Finding::expected_text() const {
  switch (relation) {
    case Relation::near:
      return number_for_readers(expected) + (tolerance > 0 ? " ± " + number_for_readers(tolerance) : "");
    case Relation::at_most:
      return "at most " + number_for_readers(expected);
    case Relation::above:
      return "above " + number_for_readers(expected);
    case Relation::shown:
      break;
  }
  return "–";
}

std::string Finding::whose_text() const {
  if (relation == Relation::shown) return "–";
  switch (whose) {
    case Whose::printed:
      return "the lecture's number";
    case Whose::follows:
      return "the lecture's formulas";
    case Whose::direction:
      return "the lecture's direction";
    case Whose::ours:
      return "a bound of ours";
    case Whose::nobody:
      break;
  }
  return "–";
}

std::string Finding::ours_text() const { return number_for_readers(ours); }

}  // namespace cogwheel::labs
