#include "cogwheel/nn/head_observer.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <vector>

#include "cogwheel/kernels/pairwise/row_statistics.h"

namespace cogwheel {

HeadObserver::HeadObserver(Hooks& hooks) {
  const auto own = [](const HookPoint& at) { return !at.memory; };
  hooks.read(HookPlace::value, [this, own](const HookPoint& at, const at::Tensor& value) {
    if (!own(at)) return;
    if (at.layer == 0) statistics_.clear();
    value_ = value;
  });
  hooks.read(HookPlace::row_statistics, [this, own](const HookPoint& at, const at::Tensor& rows) {
    if (own(at)) rows_ = rows;
  });
  hooks.read(HookPlace::heads, [this, own](const HookPoint& at, const at::Tensor& heads) {
    if (own(at)) finish_layer(heads);
  });
}

void HeadObserver::finish_layer(const at::Tensor& output) {
  const torch::NoGradGuard no_grad;
  const std::int64_t heads = output.size(2), sharing = heads / value_.size(2);
  const auto of_heads = [&](const at::Tensor& numbers) {  // [B, heads, …] → the mean of each head
    const at::Tensor means = numbers.to(at::kDouble).transpose(0, 1).flatten(1).mean(1).cpu().contiguous();
    return std::vector<double>(means.const_data_ptr<double>(), means.const_data_ptr<double>() + means.numel());
  };
  using Row = RowStatistics<double>;
  const std::vector<double> sum = of_heads(rows_[Row::sum_at]), abs_sum = of_heads(rows_[Row::abs_sum_at]),
                            negative_mass = of_heads(rows_[Row::negative_mass_at]),
                            entropy = of_heads(rows_[Row::entropy_at]), sink = of_heads(rows_[Row::sink_at].abs()),
                            value_mean = of_heads(value_.transpose(1, 2)),
                            output_norm = of_heads(output.norm(2, -1).transpose(1, 2));
  statistics_.emplace_back();
  for (std::int64_t h = 0; h < heads; ++h) {
    const auto i = static_cast<std::size_t>(h), of_value = static_cast<std::size_t>(h / sharing);
    statistics_.back().push_back({.sink = sink[i],
                                  .negative_mass = negative_mass[i],
                                  .entropy = entropy[i],
                                  .sum = sum[i],
                                  .abs_sum = abs_sum[i],
                                  .value_mean = value_mean[of_value],
                                  .output_norm = output_norm[i]});
  }
  value_ = rows_ = at::Tensor();
}

}  // namespace cogwheel
