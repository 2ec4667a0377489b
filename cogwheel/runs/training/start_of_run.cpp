#include "cogwheel/runs/training/start_of_run.h"

#include <torch/nn/module.h>

#include <string>
#include <utility>

#include "cogwheel/core/error.h"
#include "cogwheel/runs/batch.h"
#include "cogwheel/runs/safetensors.h"
#include "cogwheel/runs/training/training_run.h"
#include "cogwheel/runs/weights.h"

namespace cogwheel::runs {

void save_start(const TrainingRun& run, std::int64_t batches, const std::filesystem::path& path) {
  if (run.options().parallel_tensor > 1)
    throw UsageError(expected_got("--save", "parallel.tensor of 1, with which a rank has whole weights",
                                  std::to_string(run.options().parallel_tensor)));
  SafeTensors contents;
  for (const auto& parameter : run.model()->named_parameters())
    contents.tensors[weight_prefix + parameter.key()] = parameter.value().detach();
  for (std::int64_t step = 0; step < batches; ++step) {
    const Batch batch = run.task().batch(*run.model(), run.options(), {step, step * run.options().batch});
    const std::string name = "batch." + std::to_string(step) + ".";
    const std::pair<const char*, at::Tensor> members[] = {{"inputs", batch.inputs},
                                                          {"targets", batch.targets},
                                                          {"lengths", batch.lengths},
                                                          {"source", batch.source},
                                                          {"source_lengths", batch.source_lengths},
                                                          {"segments", batch.segments},
                                                          {"times", batch.times}};
    for (const auto& [member, tensor] : members)
      if (tensor.defined()) contents.tensors[name + member] = tensor;
  }
  save_safetensors(contents, path);
}

}  // namespace cogwheel::runs
