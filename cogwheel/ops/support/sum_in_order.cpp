#include "cogwheel/ops/support/sum_in_order.h"

#include <ATen/Dispatch.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <vector>

#include "cogwheel/ops/support/executor.h"

namespace cogwheel::ops {

at::Tensor sum_by_operators(const at::Tensor& full, std::int64_t sub_heads, at::IntArrayRef sizes) {
  const std::int64_t missing = 4 - static_cast<std::int64_t>(sizes.size());
  std::vector<std::int64_t> over;  // of [B, H, sub-heads, N, M]
  if (sub_heads > 1) over.push_back(2);
  for (std::int64_t d = 0; d < 4; ++d)
    if (d < missing || sizes[static_cast<std::size_t>(d - missing)] == 1) over.push_back(d < 2 ? d : d + 1);
  const at::Tensor split = full.unflatten(1, {full.size(1) / sub_heads, sub_heads});
  return (over.empty() ? split : split.sum(over, true, at::kDouble)).to(full.scalar_type()).reshape(sizes);
}

at::Tensor sum_in_order(const at::Tensor& full, std::int64_t sub_heads, at::IntArrayRef sizes) {
  if (!full.is_cpu()) return sum_by_operators(full, sub_heads, sizes);
  const std::int64_t heads = full.size(1);
  const std::array<std::int64_t, 4> from{full.size(0), heads / sub_heads, full.size(2), full.size(3)};
  std::array<std::int64_t, 4> to{1, 1, 1, 1};
  std::copy(sizes.begin(), sizes.end(), to.end() - static_cast<std::ptrdiff_t>(sizes.size()));
  const at::Tensor sums = at::empty(sizes, full.options());
  // A task owns a row of sums and reads its terms in order: `steps` are 1 along broadcast dimensions.
  std::array<std::int64_t, 3> steps;
  for (std::size_t d = 0; d < 3; ++d) steps[d] = to[d] == 1 ? from[d] : 1;
  AT_DISPATCH_FLOATING_TYPES(full.scalar_type(), "cogwheel::sum_in_order", [&] {
    const auto* data = full.const_data_ptr<scalar_t>();
    auto* out = sums.mutable_data_ptr<scalar_t>();
    TorchExecutor().run(to[0] * to[1] * to[2], [&](std::int64_t index, int) {
      const std::array<std::int64_t, 3> first{index / (to[1] * to[2]), index / to[2] % to[1], index % to[2]};
      std::vector<double> row(static_cast<std::size_t>(to[3]), 0.0);
      for (std::int64_t b = first[0]; b < first[0] + steps[0]; ++b)
        for (std::int64_t h = first[1] * sub_heads; h < (first[1] + steps[1]) * sub_heads; ++h)
          for (std::int64_t i = first[2]; i < first[2] + steps[2]; ++i) {
            const scalar_t* values = data + ((b * heads + h) * from[2] + i) * from[3];
            for (std::int64_t j = 0; j < from[3]; ++j)
              row[static_cast<std::size_t>(to[3] == 1 ? 0 : j)] += static_cast<double>(values[j]);
          }
      std::copy(row.begin(), row.end(), out + index * to[3]);
    });
  });
  return sums;
}

}  // namespace cogwheel::ops
