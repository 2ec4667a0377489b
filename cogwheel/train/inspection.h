// What a report shows of one trained model besides its results: attention maps, a sample of text, tables of measures.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "cogwheel/train/measure.h"

namespace cogwheel {

struct AttentionMap {
  std::vector<float> weights;  // [tokens, tokens], row by row; key j of query i at i·tokens + j
};

struct InspectionTable {
  std::string title;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;  // each with as many cells as there are columns
};

// Each part may be empty: a task fills those that it has.
struct Inspection {
  std::string mechanism;
  std::int64_t seed = 0;
  std::vector<std::string> tokens = {};              // of the sequence that the maps are of, as text
  std::vector<std::vector<AttentionMap>> maps = {};  // [layers][heads]
  std::string prompt = {}, sample = {};
  std::vector<InspectionTable> tables = {};
  std::vector<MeasuresByDifficulty> by_difficulty = {};  // results hold these
};

}  // namespace cogwheel
