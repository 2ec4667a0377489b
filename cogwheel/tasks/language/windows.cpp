#include "cogwheel/tasks/language/windows.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "cogwheel/core/random.h"

namespace cogwheel::tasks::language {
namespace {

Windows empty_windows(std::int64_t count, std::int64_t context) {
  return {at::empty({count, context}, at::kLong), at::empty({count, context}, at::kLong)};
}

void fill_window(const std::vector<Token>& tokens, std::int64_t start, std::int64_t row, const Windows& windows) {
  const std::int64_t context = windows.inputs.size(1);
  const auto first = tokens.begin() + start;
  std::copy(first, first + context, windows.inputs.mutable_data_ptr<std::int64_t>() + row * context);
  std::copy(first + 1, first + 1 + context, windows.targets.mutable_data_ptr<std::int64_t>() + row * context);
}

}  // namespace

Windows training_windows(const text::Dataset& data, std::int64_t context, std::int64_t batch, std::uint64_t seed,
                         std::int64_t step) {
  const auto starts = data.training.size() - static_cast<std::size_t>(context);
  const Windows windows = empty_windows(batch, context);
  for (std::int64_t row = 0; row < batch; ++row) {
    const std::uint64_t random =
        mix(mix(mix(seed) + static_cast<std::uint64_t>(step)) + static_cast<std::uint64_t>(row));
    fill_window(data.training, static_cast<std::int64_t>(bounded(random, starts)), row, windows);
  }
  return windows;
}

Windows held_out_windows(const text::Dataset& data, std::int64_t context, std::int64_t tokens) {
  const std::int64_t all = text::held_out_window_count(data, context),
                     count = text::held_out_window_count(data, context, tokens);
  const Windows windows = empty_windows(count, context);
  for (std::int64_t row = 0; row < count; ++row) fill_window(data.held_out, row * all / count * context, row, windows);
  return windows;
}

}  // namespace cogwheel::tasks::language
