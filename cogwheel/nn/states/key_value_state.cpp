#include "cogwheel/nn/states/key_value_state.h"

#include <torch/types.h>
#include <torch/utils.h>

namespace cogwheel::nn {

void KeyValueState::forget(std::int64_t first, std::int64_t count) {
  cache_.forget(first, count);
  if (!turn_back_) return;
  const torch::NoGradGuard no_grad;
  const at::Tensor moved = cache_.key().narrow(2, first, cache_.longest() - first);
  if (moved.size(2) > 0) moved.copy_(turn_back_(moved.transpose(1, 2), count).transpose(1, 2));
}

std::int64_t KeyValueState::bytes() const {
  const auto of_token = [](const at::Tensor& part) { return part.size(1) * part.size(3) * part.element_size(); };
  return cache_.lengths().sum().item<std::int64_t>() * (of_token(cache_.key()) + of_token(cache_.value()));
}

}  // namespace cogwheel::nn
