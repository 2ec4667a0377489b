#include "cogwheel/ops/layers/dropout.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bitwise_right_shift.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "cogwheel/ops/support/checks.h"
#include "cogwheel/ops/support/find_operator.h"
#include "cogwheel/ops/support/philox_tensors.h"
#include "cogwheel/ops/support/recorded_node.h"

namespace cogwheel::ops {
namespace {

// The smallest random word that keeps its element.
std::int64_t min_kept_word(double rate) { return std::llround(rate * 0x1p32); }

void check_dropout(const at::Tensor& x, double rate) {
  if (x.scalar_type() != at::kFloat && x.scalar_type() != at::kDouble)
    refuse_argument("dropout: x dtype", "float32 or float64", c10::toString(x.scalar_type()));
  if (!(rate >= 0 && rate < 1)) refuse_argument("dropout: rate", "at least 0 and below 1", c10::str(rate));
}

at::Tensor empty_kept(const at::Tensor& x) { return at::empty_like(x, {}, {}, {}, {}, at::MemoryFormat::Contiguous); }

// Elements 4n to 4n + 3 take the words of draw n.
template <class T>
void drop(const T* x, T* kept, std::int64_t count, double rate, std::uint64_t seed) {
  const auto threshold = static_cast<std::uint64_t>(min_kept_word(rate));
  const T factor = static_cast<T>(1 / (1 - rate));
  at::parallel_for(0, (count + 3) / 4, 2048, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      const PhiloxWords words = draw(seed, static_cast<std::uint64_t>(n), DrawPurpose::masks);
      for (std::int64_t i = 4 * n; i < std::min(count, 4 * n + 4); ++i)
        kept[i] = words[static_cast<std::size_t>(i - 4 * n)] >= threshold ? x[i] * factor : T(0);
    }
  });
}

at::Tensor dropout_cpu(const at::Tensor& given, double rate, std::int64_t seed) {
  check_dropout(given, rate);
  const at::Tensor x = given.contiguous(), kept = empty_kept(given);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "cogwheel::dropout", [&] {
    drop(x.const_data_ptr<scalar_t>(), kept.mutable_data_ptr<scalar_t>(), x.numel(), rate,
         static_cast<std::uint64_t>(seed));
  });
  return kept;
}

at::Tensor dropout_meta(const at::Tensor& x, double rate, std::int64_t) {
  check_dropout(x, rate);
  return empty_kept(x);
}

// The same in ATen's operators, for tangents and for devices without a kernel.
at::Tensor dropout_composed(const at::Tensor& x, double rate, std::int64_t seed) {
  check_dropout(x, rate);
  const at::Tensor draws = at::arange((x.numel() + 3) / 4, x.options().dtype(at::kLong));
  const at::Tensor zeros = at::zeros_like(draws);
  const WordTensors words = philox_of_tensors({word_of(draws), at::bitwise_right_shift(draws, 32), zeros,
                                               at::full_like(draws, static_cast<std::int64_t>(DrawPurpose::masks))},
                                              at::scalar_tensor(seed, draws.options()));
  const at::Tensor kept = at::stack(words, 1).flatten().slice(0, 0, x.numel()).view(x.sizes()).ge(min_kept_word(rate));
  return at::where(kept, x * (1 / (1 - rate)), at::zeros_like(x)).contiguous();
}

at::Tensor dropout_autograd(const at::Tensor& x, double rate, std::int64_t seed) {
  if (has_tangent({x})) return dropout_composed(x, rate, seed);
  at::Tensor kept;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    kept = ops::dropout(x, rate, seed);
  }
  if (needs_record({x}))
    record_saving("DropoutBackward", {x}, {kept}, {},
                  [rate, seed](const variable_list&, const variable_list&, const variable_list& gradients) {
                    return variable_list{ops::dropout(gradients[0], rate, seed)};
                  });
  return kept;
}

}  // namespace

at::Tensor dropout(const at::Tensor& x, double rate, std::int64_t seed) {
  static const auto handle = find_operator<decltype(ops::dropout)>("cogwheel::dropout");
  return handle.call(x, rate, seed);
}

TORCH_LIBRARY_FRAGMENT(cogwheel, library) { library.def("dropout(Tensor x, float rate, int seed) -> Tensor"); }

TORCH_LIBRARY_IMPL(cogwheel, CPU, library) { library.impl("dropout", dropout_cpu); }
TORCH_LIBRARY_IMPL(cogwheel, Meta, library) { library.impl("dropout", dropout_meta); }
TORCH_LIBRARY_IMPL(cogwheel, CompositeExplicitAutograd, library) { library.impl("dropout", dropout_composed); }
TORCH_LIBRARY_IMPL(cogwheel, Autograd, library) { library.impl("dropout", dropout_autograd); }

}  // namespace cogwheel::ops
