// Random numbers of a lab: a stream for each part of an experiment, the same on every machine and for any number of
// threads.
#pragma once
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace cogwheel {

class Draws {
 public:
  // `part` tells the streams of one seed from each other.
  Draws(std::uint64_t seed, std::uint64_t part) : engine_(seed_of(seed, part)) {}

  std::uint64_t bits() { return engine_(); }
  // In [0, 1).
  double uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }
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
  // SplitMix64 twice: seeds and parts that follow each other give streams that have nothing in common.
  static std::uint64_t mixed(std::uint64_t value) {
    value += 0x9e3779b97f4a7c15;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
    value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
    return value ^ (value >> 31);
  }
  static std::uint64_t seed_of(std::uint64_t seed, std::uint64_t part) { return mixed(mixed(seed) + part); }

  std::mt19937_64 engine_;
  double second_ = 0;
  bool has_second_ = false;
};

}  // namespace cogwheel
