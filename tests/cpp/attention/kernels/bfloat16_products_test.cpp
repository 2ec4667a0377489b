// The engine in bfloat16 by every product of pairs, that of tiles emulated where the machine has none: close to
// products of widened numbers in both directions, and blind to what a query does not see.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "cogwheel/attention/kernels/isa.h"
#include "cogwheel/attention/kernels/pairwise/contiguous_problem.h"
#include "cogwheel/attention/kernels/pairwise/product_choice.h"
#include "cogwheel/core/bfloat16.h"
#include "emulated_tiles.h"

namespace cogwheel {
namespace {

constexpr PairProduct emulated_amx{.name = "amx",
                                   .instructions = "none",
                                   .multiply = AmxBlocks<EmulatedTiles>::product,
                                   .release = nullptr,
                                   .group_rows = 32,
                                   .reads_columns = false};

std::vector<const PairProduct*> products() {
  std::vector<const PairProduct*> all;
  if (chosen_isa() != "avx512" || pair_products().empty()) return all;
  for (const PairProduct& each : pair_products()) all.push_back(&each);
  all.push_back(&emulated_amx);
  return all;
}

using Problem = ContiguousProblem<float, BFloat16>;

float value_of(BFloat16 x) { return float_of_bfloat16(x.bits); }

Problem drawn(const PairwiseShape& shape, const Visibility& rule) {
  Problem problem(shape);
  std::mt19937 generator(7);
  std::normal_distribution<float> normal;
  for (auto* numbers : {&problem.query, &problem.key, &problem.value, &problem.output_gradient})
    for (BFloat16& number : *numbers) number.bits = bfloat16_of(normal(generator));
  problem.rest.visibility.rule = rule;
  problem.rest.scale = 1 / std::sqrt(static_cast<float>(shape.head_dim));
  return problem;
}

// Both directions, into memory full of NaN.
void run(Problem& problem, const PairProduct* product) {
  for (auto* results : {&problem.output, &problem.query_gradient, &problem.key_gradient, &problem.value_gradient})
    for (BFloat16& number : *results) number.bits = 0x7fc0;
  problem.rest.pair_product = product;
  const PairwiseKernel<float> kernel = pairwise_kernel<float>("cog");
  kernel.forward(problem.forward(), SerialExecutor());
  kernel.backward(problem.backward(), SerialExecutor());
}

double distance(const std::vector<BFloat16>& got, const std::vector<BFloat16>& expected) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double of_expected = value_of(expected[i]), of_both = value_of(got[i]) - of_expected;
    difference += of_both * of_both;
    norm += of_expected * of_expected;
  }
  return std::sqrt(difference / norm);
}

struct Named {
  const char* name;
  std::vector<BFloat16> Problem::*numbers;
};
const Named results[] = {{"output", &Problem::output},
                         {"gradient of queries", &Problem::query_gradient},
                         {"gradient of keys", &Problem::key_gradient},
                         {"gradient of values", &Problem::value_gradient}};

TEST(BFloat16Products, AgreeInBothDirections) {
  if (products().empty()) GTEST_SKIP() << "this machine has no products of pairs";
  // Tails of groups, of blocks and of panels; heads that share keys; sub-heads; odd widths, which only some products
  // take.
  const PairwiseShape shapes[] = {
      {.batch = 2, .query_heads = 4, .value_heads = 2, .queries = 131, .keys = 119, .head_dim = 18, .value_dim = 10},
      {.query_heads = 2, .value_heads = 1, .sub_heads = 2, .queries = 65, .keys = 70, .head_dim = 64, .value_dim = 33},
      {.query_heads = 1, .value_heads = 1, .queries = 300, .keys = 300, .head_dim = 64, .value_dim = 64},
      {.query_heads = 1, .value_heads = 1, .queries = 1, .keys = 97, .head_dim = 16, .value_dim = 16},
      {.query_heads = 1, .value_heads = 1, .queries = 40, .keys = 40, .head_dim = 17, .value_dim = 24}};
  for (const PairwiseShape& shape : shapes) {
    const std::int64_t diagonal = shape.keys - shape.queries;
    for (const Visibility& rule :
         {Visibility{.keys = shape.keys}, Visibility{.keys = shape.keys, .causal = true, .diagonal = diagonal},
          Visibility{.keys = shape.keys, .causal = true, .diagonal = diagonal, .window = 9}}) {
      Problem expected = drawn(shape, rule);
      run(expected, nullptr);
      for (const PairProduct* product : products()) {
        Problem got = drawn(shape, rule);
        run(got, product);
        for (const auto& [name, numbers] : results)
          EXPECT_LE(distance(got.*numbers, expected.*numbers), 5e-3)  // a rounding to bfloat16 or two
              << product->name << " " << product->instructions << ", " << name << ", " << shape.queries
              << " queries of width " << shape.head_dim << ", window " << rule.window;
      }
    }
  }
}

// Keys in panels of pairs, with NaN beyond the last one.
std::vector<BFloat16> pairs_in_panels(const Problem& problem) {
  const PairwiseShape& s = problem.shape();
  const std::int64_t head_size = panels_of(s.keys) * keys_of_panel * s.head_dim;
  std::vector<BFloat16> panels(static_cast<std::size_t>(s.batch * s.key_heads() * head_size), BFloat16{0x7fc0});
  for (std::int64_t h = 0; h < s.batch * s.key_heads(); ++h)
    for (std::int64_t j = 0; j < s.keys; ++j)
      for (std::int64_t d = 0; d < s.head_dim; ++d) {
        const std::int64_t row = j / keys_of_panel * (s.head_dim / 2) + d / 2;
        panels[static_cast<std::size_t>(h * head_size + (row * keys_of_panel + j % keys_of_panel) * 2 + d % 2)] =
            problem.key[static_cast<std::size_t>((h * s.keys + j) * s.head_dim + d)];
      }
  return panels;
}

// By products of pairs, and widened, as machines without them do.
TEST(BFloat16Products, GiveTheSameBitsOfKeysInPanels) {
  std::vector<const PairProduct*> all = products();
  all.push_back(nullptr);
  for (const PairProduct* product : all)
    for (const std::int64_t queries : {1, 3, 16, 40})
      for (const std::int64_t width : {18, 48, 64, 128}) {
        const PairwiseShape shape{.batch = 2,
                                  .query_heads = 4,
                                  .value_heads = 2,
                                  .queries = queries,
                                  .keys = 619,
                                  .head_dim = width,
                                  .value_dim = width};
        Problem expected = drawn(shape, {.keys = 619, .causal = true, .diagonal = 619 - queries}), got = expected;
        expected.rest.pair_product = got.rest.pair_product = product;
        const PairwiseKernel<float> kernel = pairwise_kernel<float>("cog");
        kernel.forward(expected.forward(), SerialExecutor());
        const std::vector<BFloat16> panels = pairs_in_panels(got);
        const std::int64_t of_head = panels_of(shape.keys) * keys_of_panel * width;
        PairwiseForward<float> forward = got.forward();
        forward.key = {};
        forward.key_panels = KeyPanels<float>({panels.data(), shape.key_heads() * of_head, of_head, 0}, width);
        kernel.forward(forward, SerialExecutor());
        EXPECT_EQ(got.shift, expected.shift);
        EXPECT_EQ(got.mass, expected.mass);
        for (std::size_t i = 0; i < got.output.size(); ++i)
          ASSERT_EQ(got.output[i].bits, expected.output[i].bits)
              << (product ? product->instructions : "widened") << ", " << queries << " queries of width " << width;
      }
}

TEST(BFloat16Products, DoNotSeeWhatIsHidden) {
  if (products().empty()) GTEST_SKIP() << "this machine has no products of pairs";
  constexpr std::int64_t length = 101, width = 32, hidden = 77;  // an odd place: the partner of its pair is seen
  const PairwiseShape shape{.queries = length, .keys = length, .head_dim = width, .value_dim = width};
  const Visibility causal{.keys = length, .causal = true};
  for (const PairProduct* product : products()) {
    Problem clean = drawn(shape, causal), dirty = clean;
    // Without a gradient from above, queries that see the key give nothing to the others: 0 but for NaN.
    for (Problem* each : {&clean, &dirty})
      for (std::int64_t i = hidden * width; i < length * width; ++i)
        each->output_gradient[static_cast<std::size_t>(i)].bits = 0;
    for (std::int64_t d = 0; d < width; ++d) {
      const auto at = static_cast<std::size_t>(hidden * width + d);
      dirty.key[at].bits = dirty.value[at].bits = 0x7fc0;
    }
    run(clean, product);
    run(dirty, product);
    for (const auto& numbers : {&Problem::output, &Problem::query_gradient})
      for (std::size_t i = 0; i < static_cast<std::size_t>(hidden * width); ++i)
        ASSERT_EQ((dirty.*numbers)[i].bits, (clean.*numbers)[i].bits) << product->instructions << " " << i;
    EXPECT_TRUE(std::isnan(value_of(dirty.output[hidden * width])));

    // A query that is NaN, with its gradient, gives NaN to the keys that it sees alone.
    dirty = clean;
    constexpr std::int64_t query = 40;
    for (std::int64_t d = 0; d < width; ++d) {
      const auto at = static_cast<std::size_t>(query * width + d);
      dirty.query[at].bits = dirty.output_gradient[at].bits = 0x7fc0;
    }
    run(dirty, product);
    for (const auto& numbers : {&Problem::key_gradient, &Problem::value_gradient}) {
      for (std::size_t i = (query + 1) * width; i < length * width; ++i)
        ASSERT_EQ((dirty.*numbers)[i].bits, (clean.*numbers)[i].bits) << product->instructions << " " << i;
      EXPECT_TRUE(std::isnan(value_of((dirty.*numbers)[query * width])));
    }
  }
}

}  // namespace
}  // namespace cogwheel
