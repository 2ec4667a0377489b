// The holder of a model that is at hand as a module, as tasks and training runs have it.
#pragma once
#include <torch/nn/module.h>

#include <memory>

namespace cogwheel::nn {

// As in holder_of<LanguageModel>(module): the same module, shared. Empty for one of another kind.
template <class Holder>
Holder holder_of(torch::nn::Module& module) {
  return Holder(std::dynamic_pointer_cast<typename Holder::ContainedType>(module.shared_from_this()));
}

}  // namespace cogwheel::nn
