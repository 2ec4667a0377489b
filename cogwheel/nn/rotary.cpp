#include "cogwheel/nn/rotary.h"

#include <c10/core/InferenceMode.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <utility>

#include "cogwheel/core/error.h"
#include "cogwheel/core/range.h"
#include "cogwheel/core/wording/nearest_names.h"
#include "cogwheel/ops/layers/rotary.h"

namespace cogwheel::nn {

void check(const RotaryOptions& options, const std::string& prefix) {
  const auto name = [&](const char* option) { return prefix + option; };
  constexpr double largest = 1e30;
  if (options.head_dim < 2 || options.head_dim % 2 != 0)
    throw UsageError(expected_got(name("head_dim"), "an even number", std::to_string(options.head_dim)));
  if (options.positions < 1)
    throw UsageError(expected_got(name("positions"), "at least 1", std::to_string(options.positions)));
  if (!(options.base > 1) || !std::isfinite(options.base))
    throw UsageError(expected_got(name("base"), "above 1", number_text(options.base)));
  const RotaryScaling& scaling = options.scaling;
  static const std::vector<std::string> rules{"none", "linear", "llama3"};
  if (std::find(rules.begin(), rules.end(), scaling.rule) == rules.end())
    throw UsageError(expected_got(name("scaling"), expected_names(scaling.rule, rules), scaling.rule));
  expect_within(name("factor"), scaling.factor, Range<double>{.min = 1, .max = largest});
  expect_within(name("low_frequency"), scaling.low_frequency,
                Range<double>{.min = 0, .max = largest, .min_excluded = true});
  expect_within(name("high_frequency"), scaling.high_frequency,
                Range<double>{.min = scaling.low_frequency, .max = largest, .min_excluded = true});
  expect_within(name("original_context"), scaling.original_context, Range<std::int64_t>{1, std::int64_t{1} << 40});
}

std::vector<std::int64_t> component_order(RotaryLayout given, RotaryLayout made, std::int64_t head_dim) {
  const std::int64_t planes = head_dim / 2;
  std::vector<std::int64_t> order;
  for (std::int64_t component = 0; component < head_dim; ++component) {
    const bool halves = made == RotaryLayout::halves;
    const std::int64_t plane = halves ? component % planes : component / 2,
                       second = halves ? component / planes : component % 2;
    order.push_back(given == RotaryLayout::halves ? plane + second * planes : 2 * plane + second);
  }
  return order;
}

at::Tensor rotary_frequencies(const RotaryOptions& options) {
  const at::Tensor plain =
      at::pow(options.base, at::arange(0, options.head_dim, 2, at::kDouble) / -static_cast<double>(options.head_dim));
  const RotaryScaling& scaling = options.scaling;
  if (scaling.rule == "none") return plain;
  const at::Tensor scaled = plain / scaling.factor;
  if (scaling.rule == "linear") return scaled;
  const at::Tensor turns = plain * (static_cast<double>(scaling.original_context) / (2 * std::numbers::pi));
  const at::Tensor share =
      ((turns - scaling.low_frequency) / (scaling.high_frequency - scaling.low_frequency)).clamp(0, 1);
  return scaled + (plain - scaled) * share;
}

Rotary::Rotary(RotaryOptions options) : options_(std::move(options)) { check(options_); }

at::Tensor Rotary::exact_table() const {
  const at::Tensor angle = at::outer(at::arange(options_.positions, at::kDouble), rotary_frequencies(options_));
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
    return ops::rotary(x, table_for(x), positions, first, options_.layout == RotaryLayout::halves, false);
  } catch (const c10::ValueError& error) {
    throw UsageError(error.what_without_backtrace());
  }
}

at::Tensor Rotary::back(const at::Tensor& x, std::int64_t distance) const {
  const at::Tensor positions = at::full({x.size(1)}, distance, x.options().dtype(at::kLong));
  return ops::rotary(x, table_for(x), positions, 0, options_.layout == RotaryLayout::halves, true);
}

at::Tensor Rotary::operator()(const at::Tensor& x, std::int64_t first) const { return turned(x, std::nullopt, first); }

at::Tensor Rotary::operator()(const at::Tensor& x, const at::Tensor& positions) const {
  return turned(x, positions, 0);
}

}  // namespace cogwheel::nn
