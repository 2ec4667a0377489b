// What a report shows of one trained model, beside numbers: what it attends to, what it writes, tables of its measures.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace cogwheel {

struct AttentionMap {
  std::vector<float> weights;  // [tokens, tokens], row by row; key j of query i at i·tokens + j
};

struct InspectionTable {
  std::string title;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;  // as many cells each
};

// Each part may be empty: a task shows what it has.
struct Inspection {
  std::string mechanism;
  std::int64_t seed = 0;
  std::vector<std::string> tokens = {};              // of the sequence that the maps are of, as text
  std::vector<std::vector<AttentionMap>> maps = {};  // [layers][heads]
  std::string prompt = {}, sample = {};
  std::vector<InspectionTable> tables = {};
};

}  // namespace cogwheel
