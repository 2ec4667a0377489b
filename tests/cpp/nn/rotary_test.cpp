// Rotary positions against dense rotation matrices in float64.
#include "cogwheel/nn/rotary.h"

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <numeric>

#include "cogwheel/core/error.h"

namespace cogwheel::nn::rotary_test {
namespace {

constexpr std::int64_t batch = 2, tokens = 9, heads = 3, head_dim = 10;

at::Tensor input(std::uint64_t seed = 3) {
  return torch::randn({batch, tokens, heads, head_dim}, at::make_generator<at::CPUGeneratorImpl>(seed), at::kDouble);
}

// The matrix R that rotates one head x at position n: R x.
at::Tensor rotation_matrix(std::int64_t n, RotaryLayout layout, double base) {
  at::Tensor matrix = at::zeros({head_dim, head_dim}, at::kDouble);
  auto entry = matrix.accessor<double, 2>();
  for (std::int64_t p = 0; p < head_dim / 2; ++p) {
    const double angle =
        static_cast<double>(n) / std::pow(base, 2 * static_cast<double>(p) / static_cast<double>(head_dim));
    const std::int64_t a = layout == RotaryLayout::interleaved ? 2 * p : p;
    const std::int64_t b = layout == RotaryLayout::interleaved ? 2 * p + 1 : p + head_dim / 2;
    entry[a][a] = entry[b][b] = std::cos(angle);
    entry[a][b] = -std::sin(angle);
    entry[b][a] = std::sin(angle);
  }
  return matrix;
}

at::Tensor expected_rotation(const at::Tensor& x, RotaryLayout layout, double base, std::int64_t first = 0) {
  std::vector<at::Tensor> rows;
  for (std::int64_t n = 0; n < x.size(1); ++n)
    rows.push_back(x.select(1, n).matmul(rotation_matrix(first + n, layout, base).t()));
  return at::stack(rows, 1);
}

class EachLayout : public testing::TestWithParam<RotaryLayout> {};
INSTANTIATE_TEST_SUITE_P(Rotary, EachLayout, testing::Values(RotaryLayout::interleaved, RotaryLayout::halves));

TEST_P(EachLayout, TurnsPairsByTheirAngles) {
  for (const double base : {10000.0, 500000.0}) {
    const Rotary rotary({head_dim, 20, GetParam(), base});
    const at::Tensor x = input();
    EXPECT_TRUE(at::allclose(rotary(x), expected_rotation(x, GetParam(), base), 0, 1e-14));
    EXPECT_TRUE(at::allclose(rotary(x, 11), expected_rotation(x, GetParam(), base, 11), 0, 1e-14));
    EXPECT_TRUE(at::allclose(rotary(x.to(at::kFloat)), expected_rotation(x, GetParam(), base).to(at::kFloat), 0, 1e-6));
  }
}

TEST_P(EachLayout, TakesAPositionForEachTokenOfEachEntry) {
  const Rotary rotary({head_dim, 40, GetParam()});
  const at::Tensor positions =
      torch::tensor({3, 0, 39, 3, 7, 21, 8, 1, 30, 5, 6, 7, 8, 9, 10, 11, 12, 13}, at::kLong).view({batch, tokens});
  const at::Tensor x = input();
  const at::Tensor turned = rotary(x, positions), single = rotary(x.to(at::kFloat), positions);
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t n = 0; n < tokens; ++n) {
      const at::Tensor token = x.slice(0, b, b + 1).slice(1, n, n + 1);
      const auto position = positions[b][n].item<std::int64_t>();
      const at::Tensor expected = expected_rotation(token, GetParam(), 10000, position)[0][0];
      EXPECT_TRUE(turned[b][n].equal(rotary(token, position)[0][0])) << b << n;
      EXPECT_TRUE(at::allclose(turned[b][n], expected, 0, 1e-14)) << b << n;
      EXPECT_TRUE(at::allclose(single[b][n], expected.to(at::kFloat), 0, 1e-6)) << b << n;
    }
  EXPECT_TRUE(rotary(x, positions[1]).equal(rotary(x, positions[1].expand({batch, tokens}))));
  EXPECT_TRUE(rotary(x, positions[1].flip(0).flip(0)).slice(0, 1).equal(turned.slice(0, 1)));
  EXPECT_TRUE(rotary(x, at::arange(2, 2 + tokens)).equal(rotary(x, 2)));
}

TEST_P(EachLayout, TurnsGradientsOfRaggedPositionsBackAndForthAgain) {
  const Rotary rotary({head_dim, 40, GetParam()});
  const at::Tensor positions = at::arange(batch * tokens).view({batch, tokens});
  const at::Tensor x = input().requires_grad_(), upstream = input(4).requires_grad_(), again = input(5);
  const auto first = torch::autograd::grad({rotary(x, positions)}, {x}, {upstream}, true, /*create_graph=*/true);
  EXPECT_TRUE(at::allclose(rotary(first[0], positions), upstream, 0, 1e-14));
  // Linear in x, so that only the upstream gradient has a second derivative.
  const auto second = torch::autograd::grad({first[0]}, {upstream}, {again});
  EXPECT_TRUE(second[0].equal(rotary(again, positions)));
}

TEST_P(EachLayout, KeepsFarPositionsExact) {
  const Rotary rotary({head_dim, 1 << 20, GetParam()});
  const std::int64_t far = (1 << 20) - tokens;
  const at::Tensor x = input();
  const at::Tensor difference = rotary(x.to(at::kFloat), far) - expected_rotation(x, GetParam(), 10000, far);
  EXPECT_LT(difference.abs().max().item<double>(), 1e-6);
}

TEST_P(EachLayout, ReadsAnyStrides) {
  const Rotary rotary({head_dim, tokens, GetParam()});
  const at::Tensor x = input();
  const at::Tensor part = torch::cat({at::zeros_like(x).flatten(2), x.flatten(2)}, -1)
                              .slice(-1, heads * head_dim)
                              .unflatten(-1, {heads, head_dim});
  EXPECT_FALSE(part.is_contiguous());
  EXPECT_TRUE(rotary(part).equal(rotary(x)));
  const at::Tensor columns = x.transpose(1, 3).contiguous().transpose(1, 3);
  EXPECT_NE(columns.stride(-1), 1);
  EXPECT_TRUE(rotary(columns).equal(rotary(x)));
}

TEST_P(EachLayout, GradientIsTheRotationBack) {
  const Rotary rotary({head_dim, tokens, GetParam()});
  const at::Tensor x = input().requires_grad_(), upstream = input(4);
  rotary(x).backward(upstream);
  std::vector<at::Tensor> rows;
  for (std::int64_t n = 0; n < tokens; ++n)
    rows.push_back(upstream.select(1, n).matmul(rotation_matrix(n, GetParam(), 10000)));
  EXPECT_TRUE(at::allclose(x.grad(), at::stack(rows, 1), 0, 1e-14));
}

TEST_P(EachLayout, ScoresDependOnTheDistanceAlone) {
  const Rotary rotary({head_dim, 300, GetParam()});
  const at::Tensor query = input(1), key = input(2);
  const auto scores = [&](std::int64_t first) {
    return at::einsum("bnhd,bmhd->bhnm", {rotary(query, first), rotary(key, first)});
  };
  EXPECT_TRUE(at::allclose(scores(0), scores(250), 0, 1e-12));
  // Rotating only one side does change them.
  EXPECT_FALSE(at::allclose(scores(0), at::einsum("bnhd,bmhd->bhnm", {query, key}), 0, 1e-3));
}

TEST(Rotary, LayoutsDifferByAPermutation) {
  std::vector<std::int64_t> order;  // even components, then odd ones
  for (const std::int64_t parity : {0, 1})
    for (std::int64_t p = 0; p < head_dim / 2; ++p) order.push_back(2 * p + parity);
  const at::Tensor permutation = torch::tensor(order);
  const at::Tensor x = input();
  const Rotary interleaved({head_dim, tokens}), halves({head_dim, tokens, RotaryLayout::halves});
  EXPECT_TRUE(interleaved(x).index_select(-1, permutation).equal(halves(x.index_select(-1, permutation))));
  EXPECT_FALSE(interleaved(x).equal(halves(x)));
}

// By wavelengths, as the code of Llama 3.1 has them.
TEST(Rotary, ScalesWhatTurnsSeldom) {
  const RotaryScaling scaling{"llama3", 8, 1, 4, 512};
  const at::Tensor plain = rotary_frequencies({64, 1}), linear = rotary_frequencies({64, 1, {}, 10000, {"linear", 4}}),
                   scaled = rotary_frequencies({64, 1, {}, 10000, scaling});
  EXPECT_TRUE(linear.equal(plain / 4));
  int kept = 0, divided = 0, between = 0;
  for (std::int64_t plane = 0; plane < 32; ++plane) {
    const double omega = std::pow(10000, -2.0 * static_cast<double>(plane) / 64), wavelength = 2 * M_PI / omega;
    const double smooth = (512 / wavelength - 1) / (4 - 1);
    const double expected = wavelength > 512   ? (++divided, omega / 8)
                            : wavelength < 128 ? (++kept, omega)
                                               : (++between, (1 - smooth) * omega / 8 + smooth * omega);
    EXPECT_NEAR(scaled[plane].item<double>() / expected, 1, 1e-14) << plane;
  }
  EXPECT_TRUE(kept > 0 && divided > 0 && between > 0);
}

TEST(Rotary, RefusesWhatCannotBe) {
  EXPECT_THROW(Rotary({8, 4, {}, 10000, {"yarn"}}), UsageError);
  EXPECT_THROW(Rotary({8, 4, {}, 10000, {"linear", 0.5}}), UsageError);
  EXPECT_THROW(Rotary({8, 4, {}, 10000, {"llama3", 8, 4, 4}}), UsageError);
  EXPECT_THROW(Rotary({8, 0}), UsageError);
  EXPECT_THROW(Rotary({9, 4, RotaryLayout::halves}), UsageError);
  EXPECT_THROW(Rotary({8, 4, RotaryLayout::halves, 1}), UsageError);
  const Rotary rotary({head_dim, tokens, RotaryLayout::interleaved});
  try {
    rotary(input(), 1);
    ADD_FAILURE() << "turned past its last position";
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(), "rotary: positions: expected 0 to 8, got 1 to 9");
  }
  EXPECT_THROW(rotary(input().slice(-1, 0, 8)), UsageError);
  const auto refusal = [&](const at::Tensor& positions) -> std::string {
    try {
      rotary(input(), positions);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal(at::arange(1, tokens + 1)), "rotary: positions: expected 0 to 8, got 9");
  EXPECT_EQ(refusal(at::arange(-1, tokens - 1)), "rotary: positions: expected 0 to 8, got -1");
  EXPECT_EQ(refusal(at::arange(4)), "rotary: positions: expected [9] or [2, 9], got [4]");
  EXPECT_EQ(refusal(at::arange(tokens, at::kInt)), "rotary: positions dtype: expected int64, got Int");
}

}  // namespace
}  // namespace cogwheel::nn::rotary_test
