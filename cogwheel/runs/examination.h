// What `cogwheel evaluate` is asked for besides the measures of a task.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace cogwheel {

struct ExaminationOptions {
  std::int64_t samples = 0;                        // images to draw and to measure as a whole; 0: none
  std::optional<std::int64_t> sampler_steps = {};  // from noise to image; none: those of SamplerOptions
  std::string sampler;                             // its name; empty: the default
  std::filesystem::path inception;    // weights of an Inception network; empty: features of a classifier trained here
  std::optional<std::uint64_t> seed;  // of what is drawn; none: that of the run
  // Of its training; none: that of the classifier which the run keeps, or 1,500.
  std::optional<std::int64_t> classifier_steps = {};
  std::filesystem::path references;  // moments of other images' features; empty: the task's own images
  std::filesystem::path folder;      // of the run, which keeps the classifier
  std::function<void(const std::string&)> progress = [](const std::string&) {};

  bool any() const { return samples > 0 || !inception.empty() || !references.empty(); }
};

}  // namespace cogwheel
