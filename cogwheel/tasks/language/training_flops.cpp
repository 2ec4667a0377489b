#include "cogwheel/tasks/language/training_flops.h"

#include <torch/nn/module.h>

#include <algorithm>

#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/nn/weights/new_parameter.h"
#include "cogwheel/tasks/language/language_model.h"

namespace cogwheel::tasks::language {

TrainingFlops training_flops(const LanguageModelOptions& options) {
  const nn::PlaceParameters nowhere(at::kMeta);
  TrainingFlops flops;
  for (const auto& parameter : LanguageModel(options)->named_parameters()) {
    const bool looked_up =
        parameter.key() == "position_embedding" || (parameter.key() == "token_embedding" && !options.tied_head);
    if (parameter->dim() >= 2 && !looked_up) flops.products += 6 * static_cast<double>(parameter->numel());
  }
  // The keys that a token sees: all before it and itself, or the window's.
  const double context = static_cast<double>(options.context),
               window = options.window > 0 ? std::min(static_cast<double>(options.window), context) : context;
  const double seen = window - window * (window - 1) / (2 * context);
  for (std::int64_t layer = 0; layer < options.layers; ++layer) {
    const Mechanism& mechanism = find_mechanism(layer_mechanism(options, layer));
    if (mechanism.recurrent() != nullptr) continue;
    // Forward, 2 · head_dim for a score of each head and as much for each map's sum of values; backward twice as much.
    flops.attention +=
        6 * static_cast<double>((1 + mechanism.sub_heads()) * options.heads * options.used_head_dim()) * seen;
  }
  return flops;
}

}  // namespace cogwheel::tasks::language
