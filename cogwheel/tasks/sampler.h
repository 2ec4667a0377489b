// What `cogwheel sample` asks of a trained model, and how a task answers.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/models/sampling.h"

namespace cogwheel {

class RunFolder;

struct SampleRequest {
  std::string prompt;
  SamplingOptions sampling;
};

// Receives text as it is made, and ends the sampling by returning false.
using SampleWriter = std::function<bool(std::string_view)>;

struct Sampler {
  // Options of the command line that mean something to the task, as in "--top-k"; others are refused.
  std::vector<std::string> options;
  // Reads the model and its files from the folder of a run of the task; the data that it learned from is not needed.
  void (*sample)(const RunFolder& folder, const SampleRequest& request, const SampleWriter& write) = nullptr;
};

}  // namespace cogwheel
