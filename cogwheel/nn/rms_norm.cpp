#include "cogwheel/nn/rms_norm.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>

namespace cogwheel {
namespace {

// Rows whose contributions to the gradient of the weight are added before those of other blocks are.
constexpr std::int64_t block_rows = 64;

// Σ term(i), in as many chains as let the compiler use SIMD registers.
template <class T, class Term>
T sum_of(std::int64_t count, Term term) {
  constexpr std::int64_t chains = 16;
  T sums[chains] = {};
  std::int64_t i = 0;
  for (; i + chains <= count; i += chains)
    for (std::int64_t chain = 0; chain < chains; ++chain) sums[chain] += term(i + chain);
  T sum = 0;
  for (const T chain : sums) sum += chain;
  for (; i < count; ++i) sum += term(i);
  return sum;
}

// `inverse` [rows] receives 1 / √(mean(x²) + epsilon).
template <class T>
void forward_rows(const at::Tensor& x, const at::Tensor& weight, double epsilon, at::Tensor& y, at::Tensor& inverse) {
  const std::int64_t width = x.size(1);
  const T *from = x.const_data_ptr<T>(), *gain = weight.const_data_ptr<T>();
  T *to = y.mutable_data_ptr<T>(), *factors = inverse.mutable_data_ptr<T>();
  at::parallel_for(0, x.size(0), block_rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const T* in = from + row * width;
      T* out = to + row * width;
      const T squares = sum_of<T>(width, [&](std::int64_t i) { return in[i] * in[i]; });
      const T factor = 1 / std::sqrt(squares / static_cast<T>(width) + static_cast<T>(epsilon));
      factors[row] = factor;
      for (std::int64_t i = 0; i < width; ++i) out[i] = in[i] * factor * gain[i];
    }
  });
}

// With n = x / rms:  dx = (dy∘w − n · mean(dy∘w∘n)) / rms,  dw = Σ_rows dy∘n.
template <class T>
void backward_rows(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& inverse, const at::Tensor& gradient,
                   at::Tensor& to_x, at::Tensor& to_weight) {
  const std::int64_t rows = x.size(0), width = x.size(1), blocks = (rows + block_rows - 1) / block_rows;
  at::Tensor partial = at::zeros({blocks, width}, x.options());
  const T *from = x.const_data_ptr<T>(), *gain = weight.const_data_ptr<T>(), *factors = inverse.const_data_ptr<T>(),
          *given = gradient.const_data_ptr<T>();
  T *result = to_x.mutable_data_ptr<T>(), *partials = partial.mutable_data_ptr<T>();
  at::parallel_for(0, blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      T* gains = partials + block * width;
      for (std::int64_t row = block * block_rows; row < std::min(rows, (block + 1) * block_rows); ++row) {
        const T *in = from + row * width, *dy = given + row * width, factor = factors[row];
        T* dx = result + row * width;
        const T mean =
            factor * sum_of<T>(width, [&](std::int64_t i) { return dy[i] * gain[i] * in[i]; }) / static_cast<T>(width);
        for (std::int64_t i = 0; i < width; ++i) {
          const T normalised = in[i] * factor;
          gains[i] += dy[i] * normalised;
          dx[i] = factor * (dy[i] * gain[i] - normalised * mean);
        }
      }
    }
  });
  T* sums = to_weight.mutable_data_ptr<T>();
  for (std::int64_t block = 0; block < blocks; ++block)
    for (std::int64_t i = 0; i < width; ++i) sums[i] += partials[block * width + i];
}

struct RmsNorm : torch::autograd::Function<RmsNorm> {
  // x [rows, width], contiguous
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            double epsilon) {
    at::Tensor y = at::empty_like(x), inverse = at::empty({x.size(0)}, x.options());
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "rms_norm",
                               [&] { forward_rows<scalar_t>(x, weight, epsilon, y, inverse); });
    context->save_for_backward({x, weight, inverse});
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    TORCH_CHECK_NOT_IMPLEMENTED(!at::GradMode::is_enabled(),
                                "rms_norm: derivative: expected the first, got the second");
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1];
    at::Tensor to_x = at::empty_like(x), to_weight = at::zeros_like(weight);
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "rms_norm", [&] {
      backward_rows<scalar_t>(x, weight, saved[2], gradients[0].contiguous(), to_x, to_weight);
    });
    return {to_x, to_weight, {}};
  }
};

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  return RmsNorm::apply(x.reshape({-1, x.size(-1)}).contiguous(), weight, epsilon).view(x.sizes());
}

}  // namespace cogwheel
