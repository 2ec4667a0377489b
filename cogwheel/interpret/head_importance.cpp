#include "cogwheel/interpret/head_importance.h"

#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <map>
#include <utility>

#include "cogwheel/tasks/language/language_model.h"

namespace cogwheel::interpret {

std::vector<at::Tensor> head_importance(tasks::language::LanguageModelImpl& model, const at::Tensor& tokens,
                                        const at::Tensor& targets) {
  const at::AutoGradMode with_gradient(true);
  std::vector<at::Tensor> sums(model.layers().size());
  for (std::int64_t text = 0; text < tokens.size(0); ++text) {
    std::map<std::int64_t, at::Tensor> factors;
    nn::Hooks hooks;
    hooks.replace(nn::HookPlace::heads, [&](const nn::HookPoint& at, const at::Tensor& z) {
      at::Tensor& factor = factors[at.layer];
      factor = at::ones({z.size(2), 1}, z.options()).requires_grad_();
      return z * factor;
    });
    const at::Tensor loss = model.loss(tokens.narrow(0, text, 1), targets.narrow(0, text, 1), {.hooks = &hooks});
    std::vector<at::Tensor> all;
    for (const auto& [layer, factor] : factors) all.push_back(factor);
    if (all.empty()) break;
    std::size_t next = 0;
    const auto derivatives = torch::autograd::grad({loss}, all);
    for (const auto& [layer, factor] : factors) {
      const at::Tensor size = derivatives[next++].squeeze(1).abs().to(at::kCPU, at::kDouble);
      at::Tensor& sum = sums[static_cast<std::size_t>(layer)];
      sum = sum.defined() ? sum + size : size;
    }
  }
  for (at::Tensor& sum : sums)
    if (sum.defined()) sum = sum / static_cast<double>(tokens.size(0));
  return sums;
}

std::vector<HeadPlace> from_least_important(const std::vector<at::Tensor>& importance) {
  std::vector<std::pair<double, HeadPlace>> all;
  for (std::size_t layer = 0; layer < importance.size(); ++layer) {
    if (!importance[layer].defined()) continue;
    const double norm = importance[layer].norm().item<double>();
    for (std::int64_t head = 0; head < importance[layer].size(0); ++head)
      all.emplace_back(norm > 0 ? importance[layer][head].item<double>() / norm : 0,
                       HeadPlace{static_cast<std::int64_t>(layer), head});
  }
  std::ranges::stable_sort(all, {}, &std::pair<double, HeadPlace>::first);
  std::vector<HeadPlace> places;
  for (const auto& [value, place] : all) places.push_back(place);
  return places;
}

}  // namespace cogwheel::interpret
