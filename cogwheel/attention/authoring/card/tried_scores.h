// The scores at which checks evaluate a map.
#pragma once
#include <vector>

namespace cogwheel::authoring {

// Up to ±max_score, in order of size: 0, where a projection that starts at zero has them all; hundredths up to 10 and
// whole numbers up to 100, at which formulas have their singular places; and every size from 1e-30 on, in steps of at
// most 2.
std::vector<double> tried_scores(double max_score);

// Up to ±max_score, in order of size, sixteen to a decade from 1e-3 on and 0. No round numbers but 0 and ±max_score:
// there lie the kinks, at which no difference says what the derivative is.
std::vector<double> scores_between_kinks(double max_score);

}  // namespace cogwheel::authoring
