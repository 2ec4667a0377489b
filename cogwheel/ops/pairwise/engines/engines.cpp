#include "cogwheel/ops/pairwise/engines/engines.h"

#include <utility>

#include "cogwheel/attention/kernels/kernel_list.h"
#include "cogwheel/ops/pairwise/pairwise_engine.h"
#include "cogwheel/ops/support/engine.h"

namespace cogwheel::ops {

#define PAIRWISE_ENGINE(name) const PairwiseEngine& name##_pairwise_engine();
#include "cogwheel/ops/pairwise/engines/engines.def"
#undef PAIRWISE_ENGINE

std::span<const PairwiseEngine* const> pairwise_engines() {
  static const PairwiseEngine* const all[] = {
#define PAIRWISE_ENGINE(name) &name##_pairwise_engine(),
#include "cogwheel/ops/pairwise/engines/engines.def"
#undef PAIRWISE_ENGINE
  };
  return all;
}

std::vector<KernelEntry> available_engines() {
  std::vector<KernelEntry> entries;
  for (const PairwiseEngine* engine : pairwise_engines())
    for (KernelEntry& entry : engine->kernels()) {
      if (entry.chosen && pairwise_engine(engine->device) != engine)
        entry.chosen = false, entry.reason = engine_choice();
      entries.push_back(std::move(entry));
    }
  entries.push_back({"every row map", attention_is_composed() ? "every device" : "any other", "ATen", "every type",
                     true,
                     "composed of ATen's operators in blocks of queries, slower; also what the kernels of a device "
                     "lack; COGWHEEL_ENGINE=composed runs it everywhere"});
  for (KernelEntry& entry : available_recurrent_kernels()) entries.push_back(std::move(entry));
  return entries;
}

}  // namespace cogwheel::ops
