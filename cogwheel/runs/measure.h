// The measures by which a task evaluates a model.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cogwheel::runs {

struct Measure {
  std::string name;   // its key in files: held_out_loss
  std::string title;  // for display, in lower case: held-out loss
  std::string label;  // its short form, for progress lines: held-out
  std::string unit;   // nats per character; empty: a plain number
  bool lower_is_better = true;
  // The smallest value that there can be; none where there is no such bound: a density's loss may be below 0.
  std::optional<double> min = 0;
  // Too expensive for curves: measured once, on the finished model.
  bool at_end_only = false;

  // Whether `first` is better than `second`.
  bool better(double first, double second) const { return lower_is_better ? first < second : first > second; }
  // "bits per character" of a measure in nats per character; empty for other units.
  std::string unit_in_bits() const { return unit.starts_with("nats") ? "bits" + unit.substr(4) : ""; }
  bool operator==(const Measure&) const = default;
};

struct MeasuredValue {
  std::string measure;  // its name
  double value = 0;
  bool operator==(const MeasuredValue&) const = default;
};
using MeasuredValues = std::vector<MeasuredValue>;

// Measures of a trained model on items of one difficulty each.
struct MeasuresByDifficulty {
  struct Point {
    std::int64_t difficulty = 0;
    std::int64_t answers = 0;      // over which the measures are means
    MeasuredValues measured = {};  // some of the task's
  };

  std::string difficulty;          // what its numbers count: pairs
  std::int64_t trained = 0;        // the largest that training showed
  std::vector<Point> points = {};  // in rising order
};

// Null where it was not measured.
inline const double* find_value(const MeasuredValues& values, const std::string& measure) {
  for (const MeasuredValue& each : values)
    if (each.measure == measure) return &each.value;
  return nullptr;
}

}  // namespace cogwheel::runs
