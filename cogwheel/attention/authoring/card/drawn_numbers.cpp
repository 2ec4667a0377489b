#include "cogwheel/attention/authoring/card/drawn_numbers.h"

#include <cmath>

#include "cogwheel/core/philox.h"

namespace cogwheel::authoring {

std::vector<double> drawn_numbers(std::size_t count, std::uint64_t seed) {
  std::vector<double> numbers(count);
  for (std::size_t i = 0; i < count; ++i) {
    double sum = -6;
    for (std::uint32_t block = 0; block < 3; ++block)
      for (const std::uint32_t word : philox({static_cast<std::uint32_t>(i), block, 0, 0}, philox_key(seed)))
        sum += static_cast<double>(word >> 8) / (1 << 24);
    numbers[i] = sum;
  }
  return numbers;
}

std::vector<double> drawn_scores(std::size_t count, double size, bool are_cosines, std::uint64_t seed) {
  std::vector<double> scores = drawn_numbers(count, seed);
  for (double& s : scores) s = are_cosines ? std::tanh(s * size) : s * size;
  return scores;
}

}  // namespace cogwheel::authoring
