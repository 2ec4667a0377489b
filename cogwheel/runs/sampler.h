// What `cogwheel sample` asks of a trained model, and how a task answers.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/core/range.h"
#include "cogwheel/runs/sampler_options.h"

namespace cogwheel::runs {

class RunFolder;

// Of text, token by token.
struct SamplingOptions {
  std::int64_t length = 200;  // tokens to generate
  double temperature = 1.0;   // 0: always the most probable token
  std::int64_t top_k = 0;     // draw among the k most probable tokens; 0: among all
  std::uint64_t seed = 1337;
};

// The allowed range of each option.
inline constexpr Range<std::int64_t> length_range{0, 1'000'000}, top_k_range{0, 1 << 24};
inline constexpr Range<double> temperature_range{0, 1000};
inline constexpr Range<std::uint64_t> sampling_seed_range{0, std::numeric_limits<std::uint64_t>::max()};

// Throws UsageError that names the first invalid option.
void check(const SamplingOptions& options);

struct SampleRequest {
  std::string prompt;
  std::filesystem::path input;  // a file whose lines take the place of the prompt
  SamplingOptions sampling;
  std::int64_t beam = 0;          // hypotheses of a beam search; 0: as in training
  double bias = 0;                // of handwriting: above 0 tidier
  std::filesystem::path prime;    // strokes to begin with
  std::filesystem::path out;      // where pictures go
  std::int64_t count = 16;        // of images
  std::string image_class;        // what they show; empty: each class in turn
  std::filesystem::path context;  // vectors that say what they show
  double guidance = 0;            // how much more than the model would
  SamplerOptions diffusion;
  bool unclipped = false;    // whether predicted pixels may lie beyond black and white on the way
  bool interpolate = false;  // from one noise to another instead of noise for each
  // What the user should know, in one line.
  std::function<void(const std::string&)> warn = [](const std::string&) {};
};

// Receives text as it is made, and ends the sampling by returning false.
using SampleWriter = std::function<bool(std::string_view)>;

struct Sampler {
  // Options of the command line that mean something to the task, as in "--top-k"; others are refused.
  std::vector<std::string> options;
  // Reads the model and its files from the folder of a run of the task; the data that it learned from is not needed.
  void (*sample)(const RunFolder& folder, const SampleRequest& request, const SampleWriter& write) = nullptr;
};

}  // namespace cogwheel::runs
