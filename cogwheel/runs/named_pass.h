// A model that takes its inputs by name, as Python gives them, and the entry of a topology that has such passes.
#pragma once
#include <ATen/core/Dict.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cogwheel/nn/forward_context.h"
#include "cogwheel/nn/hooks/hooks.h"
#include "cogwheel/runs/model_entry.h"

namespace torch::nn {
class Module;
}

namespace cogwheel::runs {

// The inputs of a pass by the names of its arguments; those that are left out are undefined.
using PassInputs = c10::Dict<std::string, at::Tensor>;

at::Tensor optional_input(const PassInputs& inputs, const char* name);
// Throws UsageError where there is none.
at::Tensor needed_input(const PassInputs& inputs, const char* name);
// Whole numbers that number rows of a table. Throw UsageError for other types.
at::Tensor optional_whole_input(const PassInputs& inputs, const char* name);
at::Tensor needed_whole_input(const PassInputs& inputs, const char* name);

// A model that takes its inputs by name.
struct NamedPass {
  std::shared_ptr<torch::nn::Module> module;
  std::vector<nn::HookPoint> points;  // in the order of a pass
  std::function<at::Tensor(const PassInputs& inputs, const nn::ForwardContext& context)> run;
};

// The entry of models that are made of their options alone.
template <class Module, class Options>
ModelEntry model_entry_of(std::string_view name, NamedPass (*pass)(const RunConfig& config) = nullptr,
                          std::vector<PassInput> inputs = {}) {
  return {.name = name,
          .options = [] { return ModelOptions(Options()); },
          .make = [](const ModelOptions& options) -> std::shared_ptr<torch::nn::Module> {
            return std::make_shared<Module>(options.as<Options>());
          },
          .pass = pass,
          .inputs = std::move(inputs)};
}

// A pass of `model`, a holder of a module that has hook_points(); `compute` takes the model, inputs and context.
template <class Model, class Compute>
NamedPass named_pass(Model model, Compute compute) {
  return {.module = model.ptr(),
          .points = model->hook_points(),
          .run = [model, compute](const PassInputs& inputs, const nn::ForwardContext& context) mutable {
            return compute(model, inputs, context);
          }};
}

}  // namespace cogwheel::runs
