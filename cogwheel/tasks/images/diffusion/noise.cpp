#include "cogwheel/tasks/images/diffusion/noise.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <stdexcept>

#include "cogwheel/core/error.h"
#include "cogwheel/core/philox.h"

namespace cogwheel::tasks::images {
namespace {

constexpr std::int64_t numbers_of_a_counter = 4;

// Box and Muller (1958): two pairs of words make two pairs of normal numbers, none beyond 6.67.
std::array<double, numbers_of_a_counter> normal_numbers(const PhiloxWords& words) {
  std::array<double, numbers_of_a_counter> numbers{};
  for (std::size_t pair = 0; pair < words.size(); pair += 2) {
    const double radius = std::sqrt(-2 * std::log(0x1p-32 * (static_cast<double>(words[pair]) + 1)));
    const double angle = 2 * std::numbers::pi * 0x1p-32 * words[pair + 1];
    numbers[pair] = radius * std::cos(angle), numbers[pair + 1] = radius * std::sin(angle);
  }
  return numbers;
}

}  // namespace

at::Tensor Noise::normal(const at::Tensor& like, std::int64_t draw) const {
  constexpr std::int64_t words = std::numeric_limits<std::uint32_t>::max();
  const bool wide = like.scalar_type() == at::kDouble;
  at::Tensor noise = at::empty(like.sizes(), at::TensorOptions(wide ? at::kDouble : at::kFloat));
  const std::int64_t images = like.size(0), size = images == 0 ? 0 : noise.numel() / images;
  if (draw < 0 || draw > words || size / numbers_of_a_counter > words)
    throw std::logic_error(expected_got("noise", "draws and numbers that a counter of 32 bits tells apart", "more"));
  const PhiloxKey key = philox_key(seed_);
  const auto fill = [&](auto* values) {
    for (std::int64_t image = 0; image < images; ++image) {
      // All 128 bits are used, so that no two numbers of a seed are made of the same words.
      const auto counted = static_cast<std::uint64_t>(first_ + image);
      for (std::int64_t begin = 0; begin < size; begin += numbers_of_a_counter) {
        const auto numbers = normal_numbers(
            philox({static_cast<std::uint32_t>(counted), static_cast<std::uint32_t>(counted >> 32),
                    static_cast<std::uint32_t>(draw), static_cast<std::uint32_t>(begin / numbers_of_a_counter)},
                   key));
        using Value = std::remove_pointer_t<decltype(values)>;
        std::transform(numbers.begin(), numbers.begin() + std::min(numbers_of_a_counter, size - begin),
                       values + image * size + begin, [](double number) { return static_cast<Value>(number); });
      }
    }
  };
  wide ? fill(noise.mutable_data_ptr<double>()) : fill(noise.mutable_data_ptr<float>());
  return noise.to(like.options());
}

}  // namespace cogwheel::tasks::images
