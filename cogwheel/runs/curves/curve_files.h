// Curves for other programs: event files of TensorBoard, offline runs of Weights & Biases. Python's packages of these
// names write them.
#pragma once
#include <filesystem>
#include <string_view>
#include <vector>

#include "cogwheel/runs/curves/run_curve.h"

namespace cogwheel::runs {

enum class CurveFormat { tensorboard, wandb };

// Below `folder`, which is made where it is missing, a folder for each run; those that an earlier call wrote of the
// same runs are replaced. Throws Error where the Python of the environment lacks the package, in one line that says how
// to install it.
void write_curve_files(const std::vector<RunCurve>& runs, CurveFormat format, const std::filesystem::path& folder);

}  // namespace cogwheel::runs
