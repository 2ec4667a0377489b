#include "cogwheel/nn/dropout.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>

#include "cogwheel/core/philox.h"

namespace cogwheel {
namespace {

// The last word of a counter says what its draws are for.
enum Purpose : std::uint32_t { masks, seeds };

PhiloxWords draw(std::uint64_t seed, std::uint64_t counter, Purpose purpose) {
  return philox({static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), 0, purpose},
                philox_key(seed));
}

// Elements 4n to 4n + 3 take the words of draw n.
template <class T>
void drop(const T* x, T* kept, std::int64_t count, double rate, std::uint64_t seed) {
  const auto least = static_cast<std::uint64_t>(std::llround(rate * 0x1p32));  // of a word that keeps its element
  const T factor = static_cast<T>(1 / (1 - rate));
  at::parallel_for(0, (count + 3) / 4, 2048, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      const PhiloxWords words = draw(seed, static_cast<std::uint64_t>(n), masks);
      for (std::int64_t i = 4 * n; i < std::min(count, 4 * n + 4); ++i)
        kept[i] = words[static_cast<std::size_t>(i - 4 * n)] >= least ? x[i] * factor : T(0);
    }
  });
}

struct Dropped : torch::autograd::Function<Dropped> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& given, double rate,
                            std::int64_t seed) {
    context->saved_data["rate"] = rate;
    context->saved_data["seed"] = seed;
    const at::Tensor x = given.contiguous();
    at::Tensor kept = at::empty_like(x);
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "dropout", [&] {
      drop(x.const_data_ptr<scalar_t>(), kept.mutable_data_ptr<scalar_t>(), x.numel(), rate,
           static_cast<std::uint64_t>(seed));
    });
    return kept;
  }

  // Linear in x: the same mask, and again for a second derivative.
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    return {apply(gradients[0], context->saved_data["rate"].toDouble(), context->saved_data["seed"].toInt()), {}, {}};
  }
};

}  // namespace

std::uint64_t derived_seed(std::uint64_t seed, std::uint64_t index) {
  const PhiloxWords words = draw(seed, index, seeds);
  return (std::uint64_t{words[1]} << 32) | words[0];
}

at::Tensor Dropout::operator()(const at::Tensor& x) const {
  if (rate_ == 0) return x;
  const at::Tensor wide = x.scalar_type() == at::kBFloat16 ? x.to(at::kFloat) : x;
  return Dropped::apply(wide, rate_, static_cast<std::int64_t>(seed_));
}

}  // namespace cogwheel
