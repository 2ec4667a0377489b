// Random numbers that are the same on every machine.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace cogwheel::authoring {

// Approximately normal numbers, sums of twelve uniform ones.
std::vector<double> drawn_numbers(std::size_t count, std::uint64_t seed);

// Scores of that size, or cosines.
std::vector<double> drawn_scores(std::size_t count, double size, bool are_cosines, std::uint64_t seed);

}  // namespace cogwheel::authoring
