#include "cogwheel/serve/head_maps.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "cogwheel/core/encoding/base64.h"

namespace cogwheel::serve {
namespace {

constexpr float hidden = -std::numeric_limits<float>::infinity();

std::size_t pairs(std::int64_t tokens) { return static_cast<std::size_t>(tokens * (tokens + 1) / 2); }

void numbers_into(const HeadMap& map, std::vector<float>& numbers) {
  numbers.resize(map.codes.size());
  for (std::size_t index = 0; index < map.codes.size(); ++index) {
    const std::int16_t code = map.codes[index];
    const float root = static_cast<float>(code) / pages::largest_code;
    numbers[index] = code == pages::hidden_code ? hidden : map.range * root * std::abs(root);
  }
}

}  // namespace

float HeadMaps::largest() const {
  float largest = 0;
  for (const auto& heads : layers_)
    for (const HeadMap& map : heads) largest = std::max(largest, map.range);
  return largest;
}

std::size_t HeadMaps::bytes() const {
  std::size_t heads = 0;
  for (const auto& layer : layers_) heads += layer.size();
  return heads * pairs(tokens_) * sizeof(std::int16_t);
}

void HeadMaps::add_head(std::span<const float> square) {
  std::vector<float> triangle;
  triangle.reserve(pairs(tokens_));
  for (std::int64_t query = 0; query < tokens_; ++query) {
    const auto row = square.subspan(static_cast<std::size_t>(query * tokens_), static_cast<std::size_t>(query + 1));
    triangle.insert(triangle.end(), row.begin(), row.end());
  }
  add_triangle(triangle);
}

void HeadMaps::add_triangle(std::span<const float> triangle) { layers_.back().push_back(pages::wide_map(triangle)); }

std::vector<float> numbers_of(const HeadMap& map) {
  std::vector<float> numbers;
  numbers_into(map, numbers);
  return numbers;
}

HeadMaps times_value_lengths(const HeadMaps& weights, const ValueLengths& lengths) {
  HeadMaps products(weights.tokens());
  std::vector<float> numbers;
  for (std::size_t layer = 0; layer < weights.layers().size(); ++layer) {
    products.add_layer();
    for (std::size_t head = 0; head < weights.layers()[layer].size(); ++head) {
      numbers_into(weights.layers()[layer][head], numbers);
      const std::vector<float>& length = lengths[layer][head];
      std::size_t index = 0;
      for (std::size_t query = 0; query < length.size(); ++query)
        for (std::size_t key = 0; key <= query; ++key, ++index)
          if (numbers[index] != hidden) numbers[index] = std::abs(numbers[index]) * length[key];
      products.add_triangle(numbers);
    }
  }
  return products;
}

HeadMaps difference(const HeadMaps& left, const HeadMaps& right) {
  HeadMaps result(left.tokens());
  std::vector<float> numbers, others;
  for (std::size_t layer = 0; layer < left.layers().size(); ++layer) {
    result.add_layer();
    for (std::size_t head = 0; head < left.layers()[layer].size(); ++head) {
      numbers_into(left.layers()[layer][head], numbers);
      numbers_into(right.layers()[layer][head], others);
      for (std::size_t index = 0; index < numbers.size(); ++index)
        numbers[index] = numbers[index] == hidden || others[index] == hidden ? hidden : numbers[index] - others[index];
      result.add_triangle(numbers);
    }
  }
  return result;
}

std::string small_map(const HeadMap& map, std::int64_t tokens, std::int64_t side) {
  const std::int64_t points = std::min(tokens, side);
  std::vector<std::int16_t> farthest(pairs(points), pages::hidden_code);
  std::vector<std::int64_t> point_of(static_cast<std::size_t>(tokens));
  for (std::int64_t token = 0; token < tokens; ++token)
    point_of[static_cast<std::size_t>(token)] = token * points / tokens;
  std::size_t index = 0;
  for (std::int64_t query = 0; query < tokens; ++query) {
    const std::int64_t row = point_of[static_cast<std::size_t>(query)];
    std::int16_t* const points_of_row = farthest.data() + row * (row + 1) / 2;
    for (std::int64_t key = 0; key <= query; ++key, ++index) {
      const std::int16_t code = map.codes[index];
      std::int16_t& point = points_of_row[point_of[static_cast<std::size_t>(key)]];
      if (code != pages::hidden_code && (point == pages::hidden_code || std::abs(int{code}) > std::abs(int{point})))
        point = code;
    }
  }
  std::vector<std::uint8_t> codes(farthest.size());
  std::transform(farthest.begin(), farthest.end(), codes.begin(), pages::short_code);
  return base64(codes);
}

}  // namespace cogwheel::serve
