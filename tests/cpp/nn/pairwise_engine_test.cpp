// Which calls an engine of pairwise attention is asked for.
#include "cogwheel/ops/pairwise/pairwise_engine.h"

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <type_traits>
#include <utility>

namespace cogwheel::nn {
namespace {

// An engine that serves calls without options in float32.
ops::PairwiseEngine plain_engine() {
  return {.device = at::kCPU, .dtypes = {at::kFloat}, .forward = {}, .kernels = {}};
}

ops::PairwiseCall call_with(const ops::PairwiseOptions& options, at::ScalarType type = at::kFloat) {
  const at::Tensor rows = at::ones({1, 1, 2, 8}, type);
  return {rows, rows, rows, at::ones({1, 0}, at::kDouble), "softmax", options};
}

template <class T>
T different(const T& initial) {
  if constexpr (std::is_same_v<T, std::string>)
    return std::string(ops::mask::causal);
  else
    return initial + 1;
}

TEST(PairwiseEngine, IsAskedForNoOptionThatItDoesNotName) {
  using namespace ops;
  const PairwiseOptions none;
  EXPECT_EQ(lacking(plain_engine(), call_with(none)), "");
#define EXPECT_NAMED(name, value)                          \
  {                                                        \
    PairwiseOptions options;                               \
    options.name = value;                                  \
    PairwiseEngine engine = plain_engine();                \
    EXPECT_EQ(lacking(engine, call_with(options)), #name); \
    engine.options.name = true;                            \
    EXPECT_EQ(lacking(engine, call_with(options)), "");    \
    engine.options = every_pairwise_option();              \
    EXPECT_EQ(lacking(engine, call_with(options)), "");    \
    engine.options.name = false;                           \
    EXPECT_EQ(lacking(engine, call_with(options)), #name); \
  }
#define PAIRWISE_OPTION(type, name, initial) EXPECT_NAMED(name, different(type(initial)))
#define PAIRWISE_DIFFERENTIABLE(name, extent) EXPECT_NAMED(name, at::ones({1}))
#define PAIRWISE_TENSOR(name) EXPECT_NAMED(name, at::ones({1}))
#include "cogwheel/ops/pairwise/pairwise_options.def"
#undef EXPECT_NAMED
}

TEST(PairwiseEngine, IsAskedForNoOtherDtypeWeightsOrMechanism) {
  const ops::PairwiseOptions none;
  ops::PairwiseEngine engine = plain_engine();
  EXPECT_EQ(ops::lacking(engine, call_with(none, at::kHalf)), "Half");
  ops::PairwiseCall mixed = call_with(none);
  mixed.value = mixed.value.to(at::kHalf);
  EXPECT_EQ(ops::lacking(engine, mixed), "Half");

  ops::PairwiseCall weights = call_with(none);
  weights.value = at::ones({1, 1, 2, 0});
  EXPECT_EQ(ops::lacking(engine, weights), "weights");
  engine.weights = true;
  EXPECT_EQ(ops::lacking(engine, weights), "");

  engine.serves = [](const ops::PairwiseCall& call) { return call.mechanism == "cog"; };
  EXPECT_EQ(ops::lacking(engine, call_with(none)), "this mechanism or size");
  ops::PairwiseCall of_cog = call_with(none);
  of_cog.mechanism = "cog";
  EXPECT_EQ(ops::lacking(engine, of_cog), "");
}

// One for each device, and one that interprets kernels in place of the CPU's, which no test of this process asked for.
TEST(PairwiseEngine, EachStandsInTheListForADeviceOfItsOwn) {
  std::set<std::pair<at::DeviceType, bool>> served;
  for (const ops::PairwiseEngine* engine : ops::pairwise_engines()) {
    EXPECT_TRUE(served.emplace(engine->device, engine->interpreted).second) << engine->device;
    EXPECT_EQ(ops::pairwise_engine(engine->device) == engine, !engine->interpreted);
  }
  EXPECT_EQ(served.count({at::kCPU, false}), 1u);
  EXPECT_EQ(served.count({at::kCPU, true}), 1u);
  EXPECT_EQ(ops::pairwise_engine(at::kMeta), nullptr);
}

}  // namespace
}  // namespace cogwheel::nn
