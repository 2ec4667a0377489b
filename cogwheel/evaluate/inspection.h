// What is looked at in a trained model: its attention maps for one passage and a sample of its text.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace cogwheel {

struct AttentionMap {
  std::vector<float> weights;  // [tokens, tokens], row by row; key j of query i at i·tokens + j
};

struct Inspection {
  std::string mechanism;
  std::int64_t seed = 0;
  std::vector<std::string> tokens;              // of the passage, as text
  std::vector<std::vector<AttentionMap>> maps;  // [layers][heads]
  std::string prompt, sample;
};

}  // namespace cogwheel
