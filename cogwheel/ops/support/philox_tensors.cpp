#include "cogwheel/ops/support/philox_tensors.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/bitwise_and.h>
#include <ATen/ops/bitwise_left_shift.h>
#include <ATen/ops/bitwise_right_shift.h>
#include <ATen/ops/bitwise_xor.h>

#include <cstdint>

#include "cogwheel/core/philox.h"

namespace cogwheel::ops {
namespace {

struct HalvesOfProduct {
  at::Tensor high, low;
};

HalvesOfProduct product_of_words(std::uint64_t multiplier, const at::Tensor& word) {
  const auto upper = static_cast<std::int64_t>(multiplier >> 16),
             lower = static_cast<std::int64_t>(multiplier & 0xffff);
  const at::Tensor below = word * lower, carried = word * upper + at::bitwise_right_shift(below, 16);
  return {at::bitwise_right_shift(carried, 16),
          at::bitwise_left_shift(at::bitwise_and(carried, 0xffff), 16) + at::bitwise_and(below, 0xffff)};
}

}  // namespace

at::Tensor word_of(const at::Tensor& numbers) { return at::bitwise_and(numbers, std::int64_t{0xffffffff}); }

WordTensors philox_of_tensors(WordTensors counter, const at::Tensor& seed) {
  constexpr PhiloxKey increment = philox_next_key({0, 0});
  at::Tensor low = word_of(seed), high = word_of(at::bitwise_right_shift(seed, 32));
  for (int round = 0; round < philox_rounds; ++round) {
    const HalvesOfProduct first = product_of_words(philox_multiplier0, counter[0]),
                          second = product_of_words(philox_multiplier1, counter[2]);
    counter = {at::bitwise_xor(at::bitwise_xor(second.high, counter[1]), low), second.low,
               at::bitwise_xor(at::bitwise_xor(first.high, counter[3]), high), first.low};
    low = word_of(low + std::int64_t{increment[0]});
    high = word_of(high + std::int64_t{increment[1]});
  }
  return counter;
}

}  // namespace cogwheel::ops
