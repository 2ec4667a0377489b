// What a report shows of one trained model besides its results: attention maps, a sample of text, tables of measures,
// figures.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "cogwheel/pages/exhibits.h"
#include "cogwheel/runs/measure.h"
#include "cogwheel/runs/shown_figure.h"

namespace cogwheel {

struct AttentionMap {
  std::vector<float> weights;  // [tokens, tokens], row by row; key j of query i at i·tokens + j
};

// Each part may be empty: a task fills those that it has.
struct Inspection {
  std::string mechanism;
  std::int64_t seed = 0;
  std::vector<std::string> tokens = {};              // of the sequence that the maps are of, as text
  std::vector<std::vector<AttentionMap>> maps = {};  // [layers][heads]
  bool whole_maps = false;                           // of tokens that see later ones too
  std::string prompt = {}, sample = {};
  std::vector<TextTable> tables = {};
  std::vector<ShownFigure> figures = {};
  std::vector<MeasuresByDifficulty> by_difficulty = {};  // results hold these

  // Weights [layers][heads][tokens · tokens].
  void set_maps(std::vector<std::vector<std::vector<float>>> weights) {
    maps.clear();
    for (auto& layer : weights) {
      maps.emplace_back();
      for (auto& head : layer) maps.back().push_back({std::move(head)});
    }
  }
};

}  // namespace cogwheel
