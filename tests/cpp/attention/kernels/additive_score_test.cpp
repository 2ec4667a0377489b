// The pieces of the additive score against sums written out in double.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "cogwheel/attention/kernels/isa.h"
#include "engines_under_test.h"

namespace cogwheel {
namespace {

constexpr std::int64_t panel = 64;

// In keys that no row sees.
constexpr double nan_key = std::numeric_limits<double>::quiet_NaN();

template <class T>
struct Tile {
  std::int64_t rows, keys, inner;
  std::int64_t width;  // of a row of keys, in whole vectors of 16
  std::vector<T> query, key, weight, score_gradients;

  Tile(std::int64_t rows_, std::int64_t keys_, std::int64_t inner_)
      : rows(rows_),
        keys(keys_),
        inner(inner_),
        width((inner + 15) / 16 * 16),
        query(size(rows * inner)),
        key(size(keys * width)),
        weight(size(inner)),
        score_gradients(size(rows * panel)) {
    std::mt19937 random(static_cast<unsigned>(rows + 10 * keys + 1000 * inner));
    std::normal_distribution<double> normal;
    for (auto* values : {&query, &key, &weight, &score_gradients})
      for (T& value : *values) value = static_cast<T>(normal(random));
    for (std::int64_t j = 0; j < keys; ++j)
      for (std::int64_t d = inner; d < width; ++d) key[size(j * width + d)] = 0;
    // A causal corner: row r does not see the last rows − 1 − r keys, the last key has no query at all.
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t j = keys - rows + r; j < keys; ++j)
        if (j >= 0) score_gradients[size(r * panel + j)] = 0;
    for (std::int64_t d = 0; d < inner; ++d) key[size((keys - 1) * width + d)] = static_cast<T>(nan_key);
  }

  static std::int64_t width_of(std::int64_t count) { return (count + 15) / 16 * 16; }
  static std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }
  double tangent(std::int64_t r, std::int64_t j, std::int64_t d) const {
    return std::tanh(static_cast<double>(query[size(r * inner + d)] + key[size(j * width + d)]));
  }
};

struct Dense {
  std::vector<double> query, key, weight;  // rows of queries and keys in whole vectors of 16
};

template <class T>
Dense dense_gradients(const Tile<T>& tile) {
  Dense dense{std::vector<double>(tile.size(tile.rows * tile.width)), std::vector<double>(tile.key.size()),
              std::vector<double>(tile.weight.size())};
  for (std::int64_t r = 0; r < tile.rows; ++r)
    for (std::int64_t j = 0; j < tile.keys; ++j) {
      const double ds = tile.score_gradients[tile.size(r * panel + j)];
      if (ds == 0) continue;
      for (std::int64_t d = 0; d < tile.inner; ++d) {
        const double t = tile.tangent(r, j, d), v = tile.weight[tile.size(d)];
        dense.query[tile.size(r * tile.width + d)] += ds * v * (1 - t * t);
        dense.key[tile.size(j * tile.width + d)] += ds * v * (1 - t * t);
        dense.weight[tile.size(d)] += ds * t;
      }
    }
  return dense;
}

template <class T>
void expect_right(const AdditiveScoreUnderTest<T>& pieces, double tolerance) {
  for (const auto& [rows, keys, inner] : {std::array<std::int64_t, 3>{1, 16, 8},
                                          {6, 64, 64},
                                          {5, 47, 33},
                                          {6, 32, 20},
                                          {13, 64, 9},
                                          {2, 1, 1},
                                          {3, 30, 512}}) {
    const Tile<T> tile(rows, keys, inner);
    std::vector<T> scores(tile.score_gradients.size(), T(7));
    pieces.scores(rows, keys, inner, tile.query.data(), tile.key.data(), tile.weight.data(), scores.data());
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t j = 0; j < panel; ++j) {
        const T score = scores[tile.size(r * panel + j)];
        if (j >= tile.width_of(keys)) {
          EXPECT_EQ(score, 7) << "beyond the tile";
        } else if (j >= keys) {
          EXPECT_TRUE(score == 0 || score == 7) << "in the last vector";
        } else if (j == keys - 1) {
          EXPECT_TRUE(std::isnan(score));
        } else {
          double expected = 0;
          for (std::int64_t d = 0; d < inner; ++d) expected += tile.weight[tile.size(d)] * tile.tangent(r, j, d);
          EXPECT_NEAR(score, expected, tolerance * static_cast<double>(inner)) << rows << " " << keys << " " << inner;
        }
      }

    // Gradients are added to existing values.
    std::vector<T> query(tile.size(rows * tile.width), T(1)), key(tile.key.size(), T(2));
    std::vector<double> weight(tile.weight.size(), 3);
    pieces.add_gradients(rows, keys, inner, tile.query.data(), tile.key.data(), tile.weight.data(),
                         tile.score_gradients.data(), query.data(), key.data(), weight.data());
    const Dense dense = dense_gradients(tile);
    const double allowed = tolerance * static_cast<double>(rows * keys);
    for (std::size_t i = 0; i < query.size(); ++i) EXPECT_NEAR(query[i], 1 + dense.query[i], allowed) << i;
    for (std::size_t i = 0; i < key.size(); ++i) EXPECT_NEAR(key[i], 2 + dense.key[i], allowed) << i;
    for (std::size_t i = 0; i < weight.size(); ++i) EXPECT_NEAR(weight[i], 3 + dense.weight[i], allowed) << i;
  }
}

class AdditiveScore : public ::testing::TestWithParam<const EngineUnderTest*> {
 protected:
  void SetUp() override {
    for (const InstructionSet& set : instruction_sets())
      if (set.name == GetParam()->isa && !set.supported) GTEST_SKIP() << "this machine has no " << set.name;
  }
};

TEST_P(AdditiveScore, AgreesWithTheSumsWrittenOut) {
  expect_right(GetParam()->additive_float, 1e-6);
  expect_right(GetParam()->additive_double, 1e-15);
}

TEST_P(AdditiveScore, AScoreIsTheSameBitsInAnyTile) {
  const Tile<float> tile(6, 64, 40);
  std::vector<float> whole(6 * panel), alone(6 * panel);
  const auto& scores = GetParam()->additive_float.scores;
  scores(6, 64, 40, tile.query.data(), tile.key.data(), tile.weight.data(), whole.data());
  for (std::int64_t r = 0; r < 6; ++r)
    for (std::int64_t j = 0; j < 48; j += 9) {
      scores(1, 9, 40, tile.query.data() + r * 40, tile.key.data() + j * tile.width, tile.weight.data(), alone.data());
      for (std::int64_t lane = 0; lane < 9; ++lane)
        EXPECT_EQ(alone[tile.size(lane)], whole[tile.size(r * panel + j + lane)]);
    }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, AdditiveScore, ::testing::ValuesIn(engines_under_test),
                         [](const auto& engine) { return std::string(engine.param->isa); });

}  // namespace
}  // namespace cogwheel
