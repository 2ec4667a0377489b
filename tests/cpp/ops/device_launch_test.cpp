// Launches of kernels on a GPU, as far as its driver: what stands in for one (stand_in_driver.h) keeps each
// argument. Kernels are compiled as they would be, by Python, which these tests need with the package triton.
#include "cogwheel/ops/launch/device_launch.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cogwheel/attention/authoring/triton_text.h"
#include "cogwheel/attention/device/cuda_driver.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/scratch_folder.h"
#include "cogwheel/ops/pairwise/engines/triton/block_sizes.h"
#include "cogwheel/ops/pairwise/pairwise_engine.h"
#include "cogwheel/ops/recurrent/delta_walk_launches.h"
#include "cogwheel/ops/recurrent/state_space_launches.h"
#include "cogwheel/ops/recurrent/token_walk_launches.h"
#include "ops/stand_in_driver.h"

namespace cogwheel::ops {
namespace {

namespace fs = std::filesystem;

stand_in::State& driver() {
  static auto* const state = [] {
    void* const library = ::dlopen(STAND_IN_DRIVER, RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) throw Error(::dlerror());
    return reinterpret_cast<decltype(&stand_in_state)>(::dlsym(library, "stand_in_state"))();
  }();
  return *state;
}

// Gives what tensors of the CPU launch to the driver, as if they lay on its device.
class ToDriver : public Launcher {
 public:
  DeviceTarget target() const override { return target_of(0); }
  void run(const std::vector<Launch>& launches) const override {
    device::CudaDriver::of_machine().use(0);
    run_on_device(launches, target(), stream);
    taken.insert(taken.end(), launches.begin(), launches.end());
  }

  void* stream = &taken;
  mutable std::vector<Launch> taken;
};

template <class T>
std::string bytes_of(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

class DeviceLaunch : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("XDG_CACHE_HOME", cache().path().c_str(), 1);
    driver() = {};
    if (const auto lacked = device::compiled_kernels_lack(); !lacked.empty()) GTEST_SKIP() << lacked;
    launch_cpu_tensors_by(&launcher_);
  }
  void TearDown() override { launch_cpu_tensors_by(nullptr); }

  void attend(const PairwiseOptions& options = {}) {
    const PairwiseCall call{query_, key_, value_, at::empty({4, 0}, at::kDouble), "softmax", options};
    for (const PairwiseEngine* engine : pairwise_engines())
      if (engine->device == at::kCUDA) engine->forward(call, {}, {output_, rows_, rows_, at::empty({0}, at::kFloat)});
  }

  // One for all tests, because a process loads a kernel once.
  static const ScratchFolder& cache() {
    static const ScratchFolder folder;
    return folder;
  }

  static device::CompiledKernel compiled(const Launch& launch) {
    const std::string row_map = launch.mechanism.empty() ? "" : authoring::triton_text(launch.mechanism);
    return device::compiled_kernel(description_of(launch, target_of(0)), row_map);
  }

  // What a launch was given, by the names that the cache has for the parameters of its kernel.
  static std::map<std::string, std::string> arguments_of(const Launch& launch, const stand_in::Launched& launched) {
    const auto parameters = compiled(launch).parameters;
    std::map<std::string, std::string> named;
    EXPECT_EQ(launched.arguments.size(), parameters.size() + 2);  // and two pointers to scratch memory
    for (std::size_t i = 0; i < parameters.size(); ++i) named[parameters[i]] = launched.arguments[i];
    for (std::size_t i = parameters.size(); i < launched.arguments.size(); ++i)
      EXPECT_EQ(launched.arguments[i], std::string(8, '\0'));
    return named;
  }

  // Each parameter has as many bytes as its name's value, and each pointer is one of the launch.
  void expect_what_was_launched() {
    ASSERT_EQ(driver().launched.size(), launcher_.taken.size());
    for (std::size_t i = 0; i < launcher_.taken.size(); ++i) {
      const Launch& launch = launcher_.taken[i];
      std::map<std::string, std::string> given = arguments_of(launch, driver().launched[i]);
      EXPECT_EQ(given.size(), launch.tensors.size() + launch.integers.size() + launch.numbers.size()) << launch.kernel;
      for (const auto& [name, tensor] : launch.tensors) EXPECT_EQ(given[name], bytes_of(tensor.data_ptr())) << name;
      for (const auto& [name, integer] : launch.integers)
        EXPECT_EQ(given[name], bytes_of(static_cast<std::int32_t>(integer))) << name;
      for (const auto& [name, number] : launch.numbers) EXPECT_EQ(given[name], bytes_of(static_cast<float>(number)));
    }
  }

  ToDriver launcher_;
  at::Tensor query_ = at::ones({2, 4, 70, 16}, at::kBFloat16), key_ = at::ones({2, 2, 130, 16}, at::kBFloat16),
             value_ = at::ones({2, 2, 130, 16}, at::kBFloat16), output_ = at::empty({2, 4, 70, 16}, at::kBFloat16),
             rows_ = at::empty({2, 4, 70}, at::kFloat);
};

TEST_F(DeviceLaunch, ArgumentsAreThoseOfTheCall) {
  PairwiseOptions options;
  options.scale = 0.25;
  options.mask = mask::causal;
  options.window = std::int64_t{1} << 40;
  options.dropout = 0.5;
  options.seed = at::full({}, 7, at::kLong);
  attend(options);
  ASSERT_EQ(driver().launched.size(), 2u);  // and once more for programs that met what is not finite
  for (std::size_t i = 0; i < 2; ++i) {
    const stand_in::Launched& launched = driver().launched[i];
    const BlockSizes sizes =
        block_sizes("forward", {.width = 16, .target = "sm_90", .shared_bytes = shared_bytes_of("sm_90")});
    EXPECT_EQ(launched.kernel, "forward");
    EXPECT_EQ(launched.programs, 2 * 4 * ((70 + sizes.rows - 1) / sizes.rows));
    EXPECT_EQ(launched.threads, 32 * sizes.warps);
    EXPECT_EQ(launched.stream, launcher_.stream);
    std::map<std::string, std::string> given = arguments_of(launcher_.taken[i], launched);
    const std::map<std::string, std::string> expected{
        {"query.data", bytes_of(query_.data_ptr())},
        {"query.batch", bytes_of(std::int32_t{4 * 70 * 16})},
        {"key.data", bytes_of(key_.data_ptr())},
        {"key.head", bytes_of(std::int32_t{130 * 16})},
        {"value.data", bytes_of(value_.data_ptr())},
        {"value.row", bytes_of(std::int32_t{16})},
        {"output.data", bytes_of(output_.data_ptr())},
        {"shift", bytes_of(rows_.data_ptr())},
        {"score.scale", bytes_of(0.25f)},
        {"modifiers.seed_number", bytes_of(std::int32_t{7})},
        {"modifiers.kept_below", bytes_of(std::int64_t{1} << 31)},
        {"modifiers.kept_factor", bytes_of(2.0f)},
        {"visible.diagonal", bytes_of(std::int32_t{60})},
        {"visible.window", bytes_of(options.window)},
        {"shape.heads", bytes_of(std::int32_t{4})},
        {"shape.value_heads", bytes_of(std::int32_t{2})},
        {"shape.queries", bytes_of(std::int32_t{70})},
        {"shape.keys", bytes_of(std::int32_t{130})},
    };
    for (const auto& [name, bytes] : expected) EXPECT_EQ(given[name], bytes) << name;
    EXPECT_EQ(given.count("visible.lengths"), 0u);
    EXPECT_EQ(given.count("block.D"), 0u);  // which the kernel is compiled for
  }
}

TEST_F(DeviceLaunch, ADeviceHasItsMakersName) { EXPECT_EQ(device::CudaDriver::of_machine().name(0), "Stand-in"); }

TEST_F(DeviceLaunch, EveryKernelTakesWhatItIsGiven) {
  const PairwiseOptions options;
  const PairwiseCall call{query_, key_, value_, at::ones({4, 1}, at::kDouble), "softmax_off_by_one", options};
  GradientsOfCall gradients{at::empty_like(query_), at::empty_like(key_), at::empty_like(value_),
                            at::zeros({4, 1}, at::kDouble)};
  for (const PairwiseEngine* engine : pairwise_engines())
    if (engine->device == at::kCUDA) engine->backward(call, output_, {output_, rows_, rows_}, {}, gradients);
  std::vector<std::string> kernels;
  for (const stand_in::Launched& each : driver().launched) kernels.push_back(each.kernel);
  EXPECT_EQ(kernels, (std::vector<std::string>{"backward_rows", "backward_queries", "backward_queries", "backward_keys",
                                               "backward_keys"}));
  expect_what_was_launched();
}

std::set<std::string> kernels_of(const std::vector<stand_in::Launched>& launched) {
  std::set<std::string> names;
  for (const stand_in::Launched& each : launched) names.insert(each.kernel);
  return names;
}

// The same of walks, forward and backward, of packed sequences and from states.
TEST_F(DeviceLaunch, EveryKernelOfAWalkTakesWhatItIsGiven) {
  const auto ones = [](at::IntArrayRef sizes) { return at::ones(sizes, at::kFloat); };
  const at::Tensor rows = ones({1, 2, 70, 16}), state = ones({2, 2, 16, 16}), numbers = ones({1, 2, 70});
  const at::Tensor ends = at::zeros({3}, at::kLong);
  ends.mutable_data_ptr<std::int64_t>()[1] = 33, ends.mutable_data_ptr<std::int64_t>()[2] = 70;
  const auto both_ways = [&](const auto& walk, const std::set<std::string>& expected) {
    driver().launched.clear(), launcher_.taken.clear();
    ASSERT_TRUE(is_launched(walk));
    launched(walk);
    launched_back(rows, state, walk);
    EXPECT_EQ(kernels_of(driver().launched), expected);
    expect_what_was_launched();
  };
  TokenWalk channels{rows, rows, rows, -rows, -rows, state, ends};
  channels.transition = "per_channel";
  both_ways(channels, {"token_states", "token_outputs", "token_gates"});
  TokenWalk constant{rows, rows, rows, at::full({2}, 0.9, at::kFloat), {}, state, ends};
  constant.transition = "constant";
  both_ways(constant, {"token_states", "token_outputs", "head_gates"});
  both_ways(DeltaWalk{rows, rows, rows, numbers, -numbers, state, ends},
            {"delta_inverse", "delta_states", "token_outputs", "token_gates"});
  both_ways(DeltaWalk{rows, rows, rows, numbers, -rows, state, ends}, {"delta_forward", "delta_backward"});
  StateSpace space{rows, rows, -ones({16, 16}), rows, rows, {}, {}, ones({16}), state, ends};
  both_ways(space, {"space_forward", "space_backward"});
}

TEST_F(DeviceLaunch, ADamagedKernelIsCompiledAgain) {
  attend();
  const std::string image = compiled(launcher_.taken.front()).image;
  const auto kernels = [] {
    std::vector<fs::path> found;
    for (const fs::directory_entry& each : fs::directory_iterator(cache().path() / "cogwheel/device_kernels"))
      if (each.path().extension() == ".kernel") found.push_back(each.path());
    return found;
  };
  const std::size_t count = kernels().size();
  for (const fs::path& each : kernels()) std::ofstream(each, std::ios::app) << "damage";
  EXPECT_EQ(compiled(launcher_.taken.front()).image, image);
  EXPECT_EQ(kernels().size(), count);
}

TEST_F(DeviceLaunch, AFailureNamesTheKernel) {
  device::KernelDescription description("forward");
  description.set("target", "sm_90");
  description.add_argument("query.width", "i32", false);
  try {
    device::compiled_kernel(description, authoring::triton_text("softmax"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("kernel forward for sm_90: expected Triton to compile it, got "))
        << error.what();
  }
}

TEST_F(DeviceLaunch, ARefusalIsOneLine) {
  driver().refused = 2;
  try {
    attend();
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "NVIDIA's driver: expected to launch forward, got out of memory (2)");
  }
}

// As a thread that PyTorch has not used the device on.
TEST_F(DeviceLaunch, AThreadUsesTheContextThatMemoryIsOf) {
  driver().used_device = -1;
  attend();
  EXPECT_EQ(driver().used_device, 0);
  EXPECT_EQ(driver().contexts_made, 1);
  attend();
  EXPECT_EQ(driver().contexts_made, 1);
}

TEST_F(DeviceLaunch, SmallDevicesHaveSmallBlocks) {
  const BlockNeeds small{.width = 128, .target = "sm_89", .shared_bytes = shared_bytes_of("sm_89")};
  BlockNeeds wide = small;
  wide.wide_numbers = true;
  EXPECT_LT(block_sizes("forward", wide).rows, block_sizes("forward", small).rows);
  EXPECT_THROW(block_sizes("forward", {.width = 512}), UsageError);
  EXPECT_THROW(shared_bytes_of("sm_75"), UsageError);
}

TEST_F(DeviceLaunch, OldDevicesAreComposed) {
  driver().capability = 75;
  EXPECT_EQ(target_of(0).lacks(), "devices older than capability 8.0 (this one is of 7.5)");
  driver().capability = 80;
  EXPECT_EQ(target_of(0).lacks(), "");
}

}  // namespace
}  // namespace cogwheel::ops
