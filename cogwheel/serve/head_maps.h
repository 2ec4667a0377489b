// The maps of all heads of a causal model on one text, in 16 bits a number: those of 144 heads of 1,024 tokens are 151
// MB. They are made head by head, as a pass reaches them.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cogwheel/pages/attention_map_code.h"

namespace cogwheel::serve {

// One number of each pair of a query and a key that it may see: the lower triangle, row by row.
using HeadMap = pages::WideMap;

class HeadMaps {
 public:
  explicit HeadMaps(std::int64_t tokens) : tokens_(tokens) {}

  std::int64_t tokens() const { return tokens_; }
  // Of each layer, its heads.
  const std::vector<std::vector<HeadMap>>& layers() const { return layers_; }
  // The largest magnitude of all heads, 0 where there is none.
  float largest() const;
  std::size_t bytes() const;

  void add_layer() { layers_.emplace_back(); }
  // To the last layer: [tokens, tokens], row by row, of which the lower triangle counts. −∞ is a hidden key.
  void add_head(std::span<const float> square);
  // The same of a triangle.
  void add_triangle(std::span<const float> triangle);

 private:
  std::int64_t tokens_;
  std::vector<std::vector<HeadMap>> layers_;
};

// The numbers of one map; a hidden key's is −∞.
std::vector<float> numbers_of(const HeadMap& map);

// |a| · ‖v‖, with the length of each key's value: [layers][heads][tokens].
using ValueLengths = std::vector<std::vector<std::vector<float>>>;
HeadMaps times_value_lengths(const HeadMaps& weights, const ValueLengths& lengths);

// Number by number, where both have the same layers, heads and tokens; a key that either hides is hidden.
HeadMaps difference(const HeadMaps& left, const HeadMaps& right);

// A map of `side` or fewer rows and columns, in 8 bits and base64: each point is what lies farthest from 0 in the
// square that it stands for.
std::string small_map(const HeadMap& map, std::int64_t tokens, std::int64_t side);

}  // namespace cogwheel::serve
