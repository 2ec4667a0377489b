// What `cogwheel sample` asks of a trained model, and how a task answers.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/core/range.h"
#include "cogwheel/nn/weights/number_type.h"
#include "cogwheel/runs/sampler_options.h"

namespace cogwheel::runs {

class RunFolder;

// Of text, token by token. What changes the logits does so in this order, as in transformers
// (tasks/language/token_choice.h has the formulas).
struct SamplingOptions {
  std::int64_t length = 200;      // tokens to generate
  double repetition_penalty = 1;  // above 1, tokens that the text has are less likely; 1: as the model says
  double temperature = 1.0;       // 0: always the most probable token
  std::int64_t top_k = 0;         // draw among the k most probable tokens; 0: among all
  double top_p = 1;               // draw among the fewest tokens that have this probability together; 1: among all
  double min_p = 0;               // draw among the tokens that are at least so probable beside the likeliest; 0: all
  std::uint64_t seed = 1337;
  std::vector<std::string> stop = {};  // texts that end the sample, which is cut before them
  std::int64_t likeliest = -1;  // so many tokens are told at each place with their log-probabilities; below 0: none
  std::int64_t vocabulary = 0;  // only tokens below it are drawn: a model may have more than its tokenizer; 0: all
  // Past the context, the first `sink` tokens and the newest are kept; below 0: only the newest, computed anew.
  std::int64_t sink = -1;
  nn::NumberType cache = nn::NumberType::float32;  // as what keys and values are kept
};

// The allowed range of each option.
inline constexpr Range<std::int64_t> length_range{0, 1'000'000}, top_k_range{0, 1 << 24}, likeliest_range{-1, 1000},
    sink_range{-1, 1 << 24};
inline constexpr Range<double> repetition_penalty_range{1e-3, 1000}, temperature_range{0, 1000}, top_p_range{0, 1},
    min_p_range{0, 1};
inline constexpr Range<std::uint64_t> sampling_seed_range{0, std::numeric_limits<std::uint64_t>::max()};

// Throws UsageError that names the first invalid option.
void check(const SamplingOptions& options);

struct SampleRequest {
  std::string prompt;
  std::filesystem::path input;  // a file whose lines take the place of the prompt
  SamplingOptions sampling;
  std::filesystem::path prompts;     // a file of many: one a line, or objects with "prompt" in JSON lines (.jsonl)
  bool interactive = false;          // lines are read, and the text goes on after each
  std::int64_t batch = 8;            // sequences that are generated side by side
  std::string weights, cache;        // as what they are kept: bf16, int8; empty: float32
  bool json = false;                 // an object for each sample instead of text
  std::int64_t beam = 0;             // hypotheses of a beam search; 0: as in training
  std::filesystem::path alignments;  // of translations: a file for the links between words, a line for each
  std::optional<std::int64_t> alignment_layer = {};  // whose weights say them; else the model's choice
  double bias = 0;                                   // of handwriting: above 0 tidier
  std::filesystem::path prime;                       // strokes to begin with
  std::filesystem::path out;                         // where pictures go
  std::optional<std::int64_t> count = {};            // of images, 16 by default, or of samples of each prompt, 1
  std::string image_class;                           // what they show; empty: each class in turn
  std::filesystem::path context;                     // vectors that say what they show
  double guidance = 0;                               // how much more than the model would
  SamplerOptions diffusion;
  bool unclipped = false;    // whether predicted pixels may lie beyond black and white on the way
  bool interpolate = false;  // from one noise to another instead of noise for each
  // The next line of an interactive sample; none at the end.
  std::function<std::optional<std::string>()> read_line;
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
