#include "cogwheel/nn/hooks/head_observer.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <vector>

#include "cogwheel/attention/kernels/pairwise/row_statistics.h"

namespace cogwheel::nn {

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
  hooks.read(HookPlace::lambda, [this, own](const HookPoint& at, const at::Tensor& lambda) {
    if (own(at)) lambda_ = lambda;
  });
  hooks.read(HookPlace::heads, [this, own](const HookPoint& at, const at::Tensor& heads) {
    if (own(at)) finish_layer(heads);
  });
}

void HeadObserver::finish_layer(const at::Tensor& output) {
  const torch::NoGradGuard no_grad;
  using Row = RowStatistics<double>;
  const std::int64_t heads = output.size(2), sharing = heads / value_.size(2);
  const auto by_head = [](const at::Tensor& of_heads) {  // [heads]
    const at::Tensor numbers = of_heads.to(at::kCPU).contiguous();
    return std::vector<double>(numbers.const_data_ptr<double>(), numbers.const_data_ptr<double>() + numbers.numel());
  };
  const auto flat = [](const at::Tensor& numbers) { return numbers.to(at::kDouble).transpose(0, 1).flatten(1); };
  // [B, heads, N] → the mean of each head over those where `counts`, and NaN where there are none.
  const auto mean_where = [&](const at::Tensor& counts, const at::Tensor& numbers) {
    return by_head(at::where(flat(counts) > 0, flat(numbers), 0).sum(1) / flat(counts).sum(1));
  };
  const at::Tensor keys = rows_[Row::keys_at], several = keys >= 2, kurtosis = rows_[Row::kurtosis_at];
  const auto of_rows = [&](const at::Tensor& numbers) { return mean_where(several, numbers); };
  const at::Tensor entropy = rows_[Row::entropy_at];
  const auto counted = [&](std::int64_t share) { return flat(rows_[share] * keys * several).sum(1); };
  const at::Tensor positive = counted(Row::positive_at), negative = counted(Row::negative_at);
  // Of 16-bit values the squares would lose too much.
  const at::Tensor values = value_.to(at::kDouble).permute({2, 0, 1, 3}).flatten(1, 2);  // [value heads, B · N, Dv]
  const std::vector<double> value_mean = by_head(values.mean({1, 2})),
                            value_bias = by_head(values.mean(1).norm(2, -1) / values.square().sum(-1).mean(1).sqrt());
  const std::vector<double> sink = of_rows(rows_[Row::sink_at].abs()), sum = of_rows(rows_[Row::sum_at]),
                            abs_sum = of_rows(rows_[Row::abs_sum_at]),
                            negative_mass = of_rows(rows_[Row::negative_mass_at]), entropies = of_rows(entropy),
                            normalized = of_rows(entropy / keys.clamp_min(2).log()),
                            peaked = mean_where((keys >= 8).logical_and(kurtosis.isfinite()), kurtosis),
                            positive_share = of_rows(rows_[Row::positive_at]),
                            one_sign = by_head((positive - negative).abs() / (positive + negative)),
                            output_norm = by_head(flat(output.norm(2, -1).transpose(1, 2)).mean(1));
  const std::vector<double> lambda =
      lambda_.defined() ? by_head(lambda_.detach().to(at::kDouble)) : std::vector<double>(4, HeadStatistics::none);
  statistics_.emplace_back();
  for (std::int64_t h = 0; h < heads; ++h) {
    const auto i = static_cast<std::size_t>(h), of_value = static_cast<std::size_t>(h / sharing);
    statistics_.back().push_back({.sink = sink[i],
                                  .negative_mass = negative_mass[i],
                                  .entropy = entropies[i],
                                  .normalized_entropy = normalized[i],
                                  .kurtosis = peaked[i],
                                  .positive_share = positive_share[i],
                                  .sign_consistency = one_sign[i],
                                  .sum = sum[i],
                                  .abs_sum = abs_sum[i],
                                  .value_mean = value_mean[of_value],
                                  .value_bias = value_bias[of_value],
                                  .output_norm = output_norm[i],
                                  .lambda_1 = lambda[0],
                                  .lambda_2 = lambda[1],
                                  .lambda_init = lambda[2],
                                  .lambda_full = lambda[3]});
  }
  value_ = rows_ = lambda_ = at::Tensor();
}

}  // namespace cogwheel::nn
