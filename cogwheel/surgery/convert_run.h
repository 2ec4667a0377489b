// A trained language model with another mechanism, other key heads or norms, or a longer context, as a run of its own.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cogwheel/nn/conversion/weight_conversion.h"
#include "cogwheel/runs/configuration/run_config.h"
#include "cogwheel/runs/run_folder.h"
#include "cogwheel/surgery/layer_swaps.h"

namespace cogwheel::surgery {

// How the decisive measure of the run's task, the held-out loss of a text, is before any step; or why it is not known.
struct MeasuredConversion {
  std::string measure, label;
  std::optional<double> before = {}, after = {};
  std::int64_t tokens = 0;  // measured
  std::string unknown = {};
};

class RunConversion {
 public:
  // `assignments`: keys of [model], as of --set. What is new is drawn with the seed of the run's training. `text`: in
  // the place of what the run learned from, for an imported run, which has no data. Throws UsageError for another key,
  // and for one that changes what a conversion keeps (tasks/language/convertible.h); Error where the run trains
  // no language model.
  RunConversion(const runs::RunFolder& run, const std::vector<std::string>& assignments,
                const std::vector<std::string>& text = {});
  RunConversion(RunConversion&&) noexcept;
  ~RunConversion();

  const runs::RunConfig& before() const;
  const runs::RunConfig& config() const;
  const std::vector<nn::ConvertedPart>& parts() const;

  // Over the first part of what is held out, as comparisons measure it, the same for both where their contexts are.
  MeasuredConversion measure() const;
  // Throws UsageError where the run has no text.
  LayerSwaps one_by_one() const;

  // A run of weights alone, as imported ones are (import_run.h). Throws what write_imported_run throws, and UsageError
  // for the folder of the run itself.
  runs::RunFolder write(const std::filesystem::path& folder, bool overwrite = false) const;

 private:
  struct Models;
  std::unique_ptr<Models> models_;
};

}  // namespace cogwheel::surgery
