#include "cogwheel/nn/rotary.h"

#include <c10/core/InferenceMode.h>
#include <torch/types.h>

#include <cmath>
#include <string>

#include "cogwheel/core/error.h"
#include "cogwheel/ops/layers/rotary.h"

namespace cogwheel::nn {

Rotary::Rotary(std::int64_t head_dim, std::int64_t positions, RotaryLayout layout, double base)
    : head_dim_(head_dim), positions_(positions), base_(base), layout_(layout) {
  if (head_dim < 2 || head_dim % 2 != 0)
    throw UsageError(expected_got("rotary: head_dim", "an even number", std::to_string(head_dim)));
  if (!(base > 1) || !std::isfinite(base))
    throw UsageError(expected_got("rotary: base", "above 1", std::to_string(base)));
}

at::Tensor Rotary::exact_table() const {
  const at::Tensor frequency =
      at::pow(base_, at::arange(0, head_dim_, 2, at::kDouble) / -static_cast<double>(head_dim_));  // [head_dim/2]
  const at::Tensor angle = at::outer(at::arange(positions_, at::kDouble), frequency);
  return at::stack({angle.cos(), angle.sin()});
}

at::Tensor Rotary::table_for(const at::Tensor& x) const {
  const at::ScalarType type = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const at::Tensor& table : tables_)
    if (table.scalar_type() == type && table.device() == x.device()) return table;
  // Built on first use: counting the parameters of a model needs no table. A later pass may be differentiated.
  const c10::InferenceMode ordinary(false);
  if (tables_.empty()) tables_.push_back(exact_table());
  if (type == at::kDouble && x.is_cpu()) return tables_.front();
  // Convert the type before the device: not every device has float64.
  return tables_.emplace_back(tables_.front().to(type).to(x.device()));
}

at::Tensor Rotary::turned(const at::Tensor& x, const std::optional<at::Tensor>& positions, std::int64_t first) const {
  try {
    return ops::rotary(x, table_for(x), positions, first, layout_ == RotaryLayout::halves, false);
  } catch (const c10::ValueError& error) {
    throw UsageError(error.what_without_backtrace());
  }
}

at::Tensor Rotary::back(const at::Tensor& x, std::int64_t distance) const {
  const at::Tensor positions = at::full({x.size(1)}, distance, x.options().dtype(at::kLong));
  return ops::rotary(x, table_for(x), positions, 0, layout_ == RotaryLayout::halves, true);
}

at::Tensor Rotary::operator()(const at::Tensor& x, std::int64_t first) const { return turned(x, std::nullopt, first); }

at::Tensor Rotary::operator()(const at::Tensor& x, const at::Tensor& positions) const {
  return turned(x, positions, 0);
}

}  // namespace cogwheel::nn
