// The keys of measured values in JSON, one line each, in order. docs/results-format.md explains them.
#pragma once
#include <string>
#include <tuple>

#include "cogwheel/runs/json_fields.h"
#include "cogwheel/runs/measure.h"

namespace cogwheel::runs {

constexpr auto fields(const MeasuresByDifficulty::Point&) {
  using Point = MeasuresByDifficulty::Point;
  return std::tuple{
      field("difficulty", &Point::difficulty),
      field("answers", &Point::answers),
      inlined(&Point::measured),
  };
}

constexpr auto fields(const MeasuresByDifficulty&) {
  return std::tuple{
      field("difficulty", &MeasuresByDifficulty::difficulty),
      field("trained", &MeasuresByDifficulty::trained),
      field("points", &MeasuresByDifficulty::points),
  };
}

// Each measure is a key with its name; an unknown value is null.
inline void write_keys(const MeasuredValues& values, Json& json) {
  for (const MeasuredValue& each : values) json[each.measure] = write_json(each.value);
}
inline void read_key(const Json& json, const std::string& name, MeasuredValues& values) {
  if (json.is_number()) values.push_back({name, json.get<double>()});
}

}  // namespace cogwheel::runs
