#include "cogwheel/ops/pairwise/pairwise_engine.h"

#include <algorithm>
#include <array>
#include <string>

#include "cogwheel/ops/support/engine.h"

namespace cogwheel::ops {

const PairwiseEngine* pairwise_engine(at::DeviceType device) {
  static const auto by_device = [] {
    std::array<const PairwiseEngine*, static_cast<std::size_t>(at::COMPILE_TIME_MAX_DEVICE_TYPES)> found{};
    if (attention_is_composed()) return found;
    for (const PairwiseEngine* engine : pairwise_engines())
      if (engine->device != at::kCPU || engine->interpreted == interprets_kernels())
        found[static_cast<std::size_t>(engine->device)] = engine;
    return found;
  }();
  return by_device[static_cast<std::size_t>(device)];
}

std::string_view lacking(const PairwiseEngine& engine, const PairwiseCall& call) {
  if (engine.lacks != nullptr)
    if (const std::string_view lacked = engine.lacks(call.query.device().index()); !lacked.empty()) return lacked;
  for (const at::Tensor* tensor : {&call.query, &call.key, &call.value})
    if (std::find(engine.dtypes.begin(), engine.dtypes.end(), tensor->scalar_type()) == engine.dtypes.end())
      return c10::toString(tensor->scalar_type());
#define PAIRWISE_OPTION(type, name, initial) \
  if (!engine.options.name && call.options.name != type(initial)) return #name;
#define PAIRWISE_DIFFERENTIABLE(name, extent) \
  if (!engine.options.name && call.options.name) return #name;
#define PAIRWISE_TENSOR(name) \
  if (!engine.options.name && call.options.name) return #name;
#include "cogwheel/ops/pairwise/pairwise_options.def"
  if (!engine.weights && are_identity(call.value)) return "weights";
  if (engine.serves != nullptr && !engine.serves(call)) return "this mechanism or size";
  return {};
}

}  // namespace cogwheel::ops
