#include "cogwheel/nn/rotary.h"

#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/types.h>

#include <cmath>
#include <string>

#include "cogwheel/core/error.h"

namespace cogwheel {
namespace {

// Element p of the pairs is x[p·step] and x[p·step + apart]. T is what is computed in.
template <class T, class Element>
void rotate_row(const Element* x, Element* turned, const T* cosine, const T* sine, std::int64_t pairs, bool halves) {
  const std::int64_t step = halves ? 1 : 2, apart = halves ? pairs : 1;
  for (std::int64_t p = 0; p < pairs; ++p) {
    const T first = static_cast<T>(x[p * step]), second = static_cast<T>(x[p * step + apart]);
    turned[p * step] = static_cast<Element>(first * cosine[p] - second * sine[p]);
    turned[p * step + apart] = static_cast<Element>(first * sine[p] + second * cosine[p]);
  }
}

// x [B, N, heads, head_dim], cosine and sine [N, head_dim/2] in the type that is computed in.
template <class Element>
at::Tensor rotated(const at::Tensor& given, const at::Tensor& cosine, const at::Tensor& sine, bool halves) {
  const at::Tensor x = given.stride(-1) == 1 ? given : given.contiguous();
  at::Tensor turned = at::empty(x.sizes(), x.options());
  const std::int64_t tokens = x.size(1), heads = x.size(2), head_dim = x.size(3), pairs = head_dim / 2;
  using T = at::opmath_type<Element>;
  const Element* from = x.const_data_ptr<Element>();
  const T *cosines = cosine.const_data_ptr<T>(), *sines = sine.const_data_ptr<T>();
  Element* to = turned.mutable_data_ptr<Element>();
  at::parallel_for(0, x.size(0) * tokens, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t token = row % tokens;
      for (std::int64_t head = 0; head < heads; ++head)
        rotate_row(from + row / tokens * x.stride(0) + token * x.stride(1) + head * x.stride(2),
                   to + (row * heads + head) * head_dim, cosines + token * pairs, sines + token * pairs, pairs, halves);
    }
  });
  return turned;
}

struct Rotation : torch::autograd::Function<Rotation> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& cosine,
                            const at::Tensor& sine, bool halves) {
    context->save_for_backward({cosine, sine});
    context->saved_data["halves"] = halves;
    return AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, x.scalar_type(), "rotary",
                                          [&] { return rotated<scalar_t>(x, cosine, sine, halves); });
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    return {apply(gradients[0], saved[0], -saved[1], context->saved_data["halves"].toBool()), {}, {}, {}};
  }
};

}  // namespace

Rotary::Rotary(std::int64_t head_dim, std::int64_t positions, RotaryPairs pairs, double base)
    : head_dim_(head_dim), positions_(positions), pairs_(pairs) {
  if (head_dim < 2 || head_dim % 2 != 0)
    throw UsageError(expected_got("rotary: head_dim", "an even number", std::to_string(head_dim)));
  if (!(base > 1) || !std::isfinite(base))
    throw UsageError(expected_got("rotary: base", "above 1", std::to_string(base)));
  const at::Tensor frequency =
      at::pow(base, at::arange(0, head_dim, 2, at::kDouble) / -static_cast<double>(head_dim));  // [head_dim/2]
  const at::Tensor angle = at::outer(at::arange(positions, at::kDouble), frequency);
  double_ = at::stack({angle.cos(), angle.sin()});
  single_ = double_.to(at::kFloat);
}

at::Tensor Rotary::operator()(const at::Tensor& x, std::int64_t first) const {
  if (x.dim() != 4 || x.size(3) != head_dim_)
    throw UsageError(expected_got("rotary: x", "[B, N, heads, " + std::to_string(head_dim_) + "]",
                                  std::to_string(x.dim()) + " dimensions, the last of " + std::to_string(x.size(-1))));
  if (first < 0 || first + x.size(1) > positions_)
    throw UsageError(expected_got("rotary: positions", "0 to " + std::to_string(positions_ - 1),
                                  std::to_string(first) + " to " + std::to_string(first + x.size(1) - 1)));
  const at::Tensor table = (x.scalar_type() == at::kDouble ? double_ : single_).slice(1, first, first + x.size(1));
  return Rotation::apply(x, table[0], table[1], pairs_ == RotaryPairs::halves);
}

at::Tensor Rotary::operator()(const at::Tensor& x, const at::Tensor& positions) const {
  std::vector<at::Tensor> entries;
  const at::Tensor& tables = x.scalar_type() == at::kDouble ? double_ : single_;
  for (std::int64_t b = 0; b < x.size(0); ++b) {
    const at::Tensor table = tables.index_select(1, positions[b]);
    entries.push_back(Rotation::apply(x.narrow(0, b, 1), table[0], table[1], pairs_ == RotaryPairs::halves));
  }
  return at::cat(entries);
}

}  // namespace cogwheel
