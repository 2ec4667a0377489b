#include "cogwheel/nn/mixers/alibi.h"

#include <torch/types.h>

#include <bit>

namespace cogwheel::nn {

at::Tensor alibi_slopes(std::int64_t heads) {
  const auto of_power_of_two = [](std::int64_t count, std::int64_t step, std::int64_t wanted) {
    return at::exp2((at::arange(wanted, at::kDouble) * step + 1) * (-8.0 / static_cast<double>(count)));
  };
  const auto power = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(heads)));
  const at::Tensor slopes = of_power_of_two(power, 1, power);
  return power == heads ? slopes : at::cat({slopes, of_power_of_two(2 * power, 2, heads - power)});
}

}  // namespace cogwheel::nn
