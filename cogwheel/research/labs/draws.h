// Random numbers of a lab: a stream for each part of an experiment, the same on every machine and for any number of
// threads.
#pragma once
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "cogwheel/core/random.h"

namespace cogwheel::labs {

class Draws {
 public:
  // `part` tells the streams of one seed from each other: those that follow each other have nothing in common.
  Draws(std::uint64_t seed, std::uint64_t part) : engine_(random_of({seed, part})) {}

  std::uint64_t bits() { return engine_(); }
  // In [0, 1).
  double uniform() { return uniform_number(engine_); }
  std::int64_t below(std::int64_t limit) {
    return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(limit));
  }
  // Marsaglia's polar method: two at a time.
  double normal() {
    if (has_second_) {
      has_second_ = false;
      return second_;
    }
    double x, y, square;
    do {
      x = 2 * uniform() - 1, y = 2 * uniform() - 1;
      square = x * x + y * y;
    } while (square >= 1 || square == 0);
    const double factor = std::sqrt(-2 * std::log(square) / square);
    second_ = y * factor, has_second_ = true;
    return x * factor;
  }
  // A direction, each as probable as any other.
  void unit_vector(double* vector, std::int64_t width) {
    double square = 0;
    for (std::int64_t i = 0; i < width; ++i) vector[i] = normal(), square += vector[i] * vector[i];
    const double factor = 1 / std::sqrt(square);
    for (std::int64_t i = 0; i < width; ++i) vector[i] *= factor;
  }

 private:
  std::mt19937_64 engine_;
  double second_ = 0;
  bool has_second_ = false;
};

}  // namespace cogwheel::labs
