// How long a lab takes here, and one that fits the time that there is.
#pragma once
#include <string>

#include "cogwheel/research/labs/lab.h"
#include "cogwheel/research/reproduce/reproduction.h"

namespace cogwheel::reproduce {

struct LabTimes {
  double fixed = 0, by_size = 0;  // seconds; the second grows with the size of the lab (labs::LabSize)

  double seconds() const { return fixed + by_size; }
};

// By running it at small sizes, the larger the more of what it takes they leave unknown, but no further once that has
// taken `most` seconds. Its lab must have a size.
LabTimes measure_lab(const LabExperiment& experiment, const labs::LabHost& host, double most);

// Makes it smaller, so that it takes at most `seconds`, but never smaller than 1, and `times` with it; not larger.
// Returns its size then, as --set takes it, "steps=712".
std::string fit_lab(LabExperiment& experiment, LabTimes& times, double seconds);

// What a lab takes with what a request asks of it.
struct LabForecast {
  double seconds = 0;       // with the size that fits
  bool measured = false;    // else as its file declares, at most
  std::string fitted = {};  // the size that ends within the minutes of the request, as --set takes it
  bool smaller = false;     // than it would have been
  bool exceeds = false;     // even the smallest takes longer
};

// Where minutes are asked for and no size, the lab gets the size that ends within them, trying it included; nothing is
// tried where its file declares half of them at most. `to_tell`: the time is asked for, and tried too where the file
// declares more than `small_minutes`. What the file declares is of its own parameters alone.
LabForecast forecast_lab(LabExperiment& experiment, const ReproductionRequest& request, const labs::LabHost& host,
                         bool to_tell);
inline constexpr double small_minutes = 2;

}  // namespace cogwheel::reproduce
