#include "cogwheel/research/inspect/held_out.h"

#include <torch/types.h>

#include <algorithm>

#include "cogwheel/core/error.h"
#include "cogwheel/research/inspect/study.h"
#include "cogwheel/tasks/language/language_model.h"
#include "cogwheel/tasks/language/language_model_task.h"
#include "cogwheel/tasks/synthetic/sampled_task.h"

namespace cogwheel::inspect {

runs::Batch held_out_of(const StudiedRun& run, std::int64_t tokens, std::int64_t context) {
  const std::int64_t own = (*run.model)->options().context;
  if (const auto* const drawn = dynamic_cast<const tasks::synthetic::SampledTask*>(run.task.get())) {
    const std::int64_t window = drawn->data(run.config.model, run.config.training).window;
    return drawn->held_out_sequences(**run.model, std::max<std::int64_t>(1, tokens / window));
  }
  const auto* const on_text = dynamic_cast<const tasks::language::LanguageModelTask*>(run.task.get());
  if (on_text == nullptr)
    throw UsageError(expected_got(run.name, "a run on a text, or on drawn sequences", run.config.task.name));
  const runs::Batch found =
      on_text->held_out_windows_of(context == 0 ? own : context, tokens, run.config.training.seed);
  if (found.positions.defined())
    throw UsageError(expected_got(run.name, "a run whose windows are one text each",
                                  "documents beside each other (data.packing = \"documents\")"));
  return found;
}

}  // namespace cogwheel::inspect
