#include "cogwheel/ops/layers/norm_rows.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>
#include <vector>

#include "cogwheel/core/bfloat16.h"
#include "cogwheel/ops/layers/row_loops.h"

namespace cogwheel::ops {
namespace {

// Rows whose contributions to the gradients of weight and bias are added before those of other blocks are.
constexpr std::int64_t block_rows = 64;

// A row is normalised as (x − mean) · inverse. The mean counts as 0 where it is not subtracted.
template <class T>
struct Moments {
  T mean, inverse;
};

template <class T>
[[gnu::always_inline]] inline Moments<T> normalise(const T* x, const T* gain, const T* bias, std::int64_t width,
                                                   bool centered, double epsilon, T* y) {
  const T count = static_cast<T>(width);
  const T mean = centered ? sum_of<T>(width, [=](std::int64_t i) { return x[i]; }) / count : T(0);
  const T squares = sum_of<T>(width, [=](std::int64_t i) { return (x[i] - mean) * (x[i] - mean); });
  const T inverse = 1 / std::sqrt(squares / count + static_cast<T>(epsilon));
  if (bias)
    for (std::int64_t i = 0; i < width; ++i) y[i] = (x[i] - mean) * inverse * gain[i] + bias[i];
  else
    for (std::int64_t i = 0; i < width; ++i) y[i] = (x[i] - mean) * inverse * gain[i];
  return {mean, inverse};
}

// With n the normalised row and g = dy∘gain:  dx = to_sum + (g − mean(g) − n mean(g∘n)) · inverse, the first term only
// where given, the third only if the mean is subtracted;  gains += dy∘n,  biases += dy.
template <class T>
[[gnu::always_inline]] inline void differentiate(const T* x, const T* gain, const T* dy, const T* to_sum,
                                                 Moments<T> moments, std::int64_t width, bool centered, T* dx, T* gains,
                                                 T* biases) {
  const auto [mean, inverse] = moments;
  const T count = static_cast<T>(width);
  const auto [along_sum, shift_sum] = sums_of<T>(width, [=](std::int64_t i) {
    const T g = dy[i] * gain[i];
    return std::pair(g * (x[i] - mean) * inverse, g);
  });
  const T along = along_sum / count, shift = centered ? shift_sum / count : T(0);
  // Rows do not overlap, which the compiler cannot know.
#pragma GCC ivdep
  for (std::int64_t i = 0; i < width; ++i) {
    const T normed = (x[i] - mean) * inverse;
    gains[i] += dy[i] * normed;
    biases[i] += dy[i];
    dx[i] = inverse * (dy[i] * gain[i] - shift - normed * along);
  }
  if (to_sum)
#pragma GCC ivdep
    for (std::int64_t i = 0; i < width; ++i) dx[i] += to_sum[i];
}

// The same for each type, with the best instructions.
COGWHEEL_FOR_EACH_X86 Moments<float> normalise_row(const float* x, const float* gain, const float* bias,
                                                   std::int64_t width, bool centered, double epsilon, float* y) {
  return normalise(x, gain, bias, width, centered, epsilon, y);
}
Moments<double> normalise_row(const double* x, const double* gain, const double* bias, std::int64_t width,
                              bool centered, double epsilon, double* y) {
  return normalise(x, gain, bias, width, centered, epsilon, y);
}
COGWHEEL_FOR_EACH_X86 void differentiate_row(const float* x, const float* gain, const float* dy, const float* to_sum,
                                             Moments<float> moments, std::int64_t width, bool centered, float* dx,
                                             float* gains, float* biases) {
  differentiate(x, gain, dy, to_sum, moments, width, centered, dx, gains, biases);
}
void differentiate_row(const double* x, const double* gain, const double* dy, const double* to_sum,
                       Moments<double> moments, std::int64_t width, bool centered, double* dx, double* gains,
                       double* biases) {
  differentiate(x, gain, dy, to_sum, moments, width, centered, dx, gains, biases);
}

COGWHEEL_FOR_EACH_X86 void widen_row(const std::uint16_t* from, std::int64_t width, float* to) {
  for (std::int64_t i = 0; i < width; ++i) to[i] = float_of_bfloat16(from[i]);
}
COGWHEEL_FOR_EACH_X86 void round_row(const float* from, std::int64_t width, std::uint16_t* to) {
  for (std::int64_t i = 0; i < width; ++i) to[i] = bfloat16_of(from[i]);
}
template <class T>
void add_row(const T* a, const T* b, std::int64_t width, T* sum) {
  for (std::int64_t i = 0; i < width; ++i) sum[i] = a[i] + b[i];
}

// Rows of a tensor of T, or of bfloat16 where T is float.
template <class T>
class RowsOf {
 public:
  explicit RowsOf(const at::Tensor& tensor)
      : data_(tensor.defined() ? tensor.data_ptr() : nullptr),
        width_(tensor.defined() ? tensor.size(-1) : 0),
        in_bfloat16_(tensor.defined() && tensor.scalar_type() == at::kBFloat16) {}
  bool exist() const { return data_ != nullptr; }

  // The row in place, or a widened copy.
  const T* read(std::int64_t row, T* copy) const {
    if constexpr (std::is_same_v<T, float>)
      if (in_bfloat16_) {
        widen_row(static_cast<const std::uint16_t*>(data_) + row * width_, width_, copy);
        return copy;
      }
    return static_cast<const T*>(data_) + row * width_;
  }
  // Where to write the row, or a buffer from which `written` rounds it.
  T* begin(std::int64_t row, T* buffer) const { return in_bfloat16_ ? buffer : static_cast<T*>(data_) + row * width_; }
  void written(std::int64_t row, const T* buffer) const {
    if constexpr (std::is_same_v<T, float>)
      if (in_bfloat16_) round_row(buffer, width_, static_cast<std::uint16_t*>(data_) + row * width_);
  }

 private:
  void* data_;
  std::int64_t width_;
  bool in_bfloat16_;
};

template <class T>
void forward_rows(const NormForward& call) {
  const std::int64_t width = call.x.size(-1);
  const RowsOf<T> x(call.x), delta(call.delta), sums(call.sum), normed(call.normed);
  const T *gain = call.weight.const_data_ptr<T>(),
          *bias = call.bias.defined() ? call.bias.const_data_ptr<T>() : nullptr;
  auto* moments = reinterpret_cast<Moments<T>*>(call.moments.mutable_data_ptr<T>());
  at::parallel_for(0, call.x.numel() / width, block_rows, [&](std::int64_t begin, std::int64_t end) {
    std::vector<T> buffer(static_cast<std::size_t>(width));
    for (std::int64_t row = begin; row < end; ++row) {
      const T* sum = x.read(row, nullptr);
      if (delta.exist()) {
        T* added = sums.begin(row, nullptr);
        add_row(sum, delta.read(row, buffer.data()), width, added);
        sum = added;
      }
      moments[row] =
          normalise_row(sum, gain, bias, width, call.centered, call.epsilon, normed.begin(row, buffer.data()));
      normed.written(row, buffer.data());
    }
  });
}

template <class T>
void backward_rows(const NormBackward& call) {
  const std::int64_t width = call.sum.size(-1), rows = call.sum.numel() / width,
                     blocks = (rows + block_rows - 1) / block_rows;
  const at::Tensor partial = at::zeros({blocks, 2, width}, call.sum.options());
  const RowsOf<T> sums(call.sum), to_sum(call.sum_gradient), to_normed(call.normed_gradient), to_x(call.x_gradient),
      to_delta(call.delta_gradient);
  const T* gain = call.weight.const_data_ptr<T>();
  const auto* moments = reinterpret_cast<const Moments<T>*>(call.moments.const_data_ptr<T>());
  T* partials = partial.mutable_data_ptr<T>();
  at::parallel_for(0, blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<T> buffer(static_cast<std::size_t>(width));
    for (std::int64_t block = begin; block < end; ++block) {
      T *gains = partials + block * 2 * width, *biases = gains + width;
      for (std::int64_t row = block * block_rows; row < std::min(rows, (block + 1) * block_rows); ++row) {
        T* dx = to_x.begin(row, nullptr);
        differentiate_row(sums.read(row, nullptr), gain, to_normed.read(row, buffer.data()),
                          to_sum.exist() ? to_sum.read(row, nullptr) : nullptr, moments[row], width, call.centered, dx,
                          gains, biases);
        if (to_delta.exist()) to_delta.written(row, dx);
      }
    }
  });
  T *gains = call.weight_gradient.mutable_data_ptr<T>(), *biases = call.bias_gradient.mutable_data_ptr<T>();
  for (std::int64_t block = 0; block < blocks; ++block) {
    add_row(gains, partials + block * 2 * width, width, gains);
    add_row(biases, partials + (block * 2 + 1) * width, width, biases);
  }
}

}  // namespace

void norm_rows(const NormForward& call) {
  AT_DISPATCH_FLOATING_TYPES(call.x.scalar_type(), "cogwheel::norm_of_sum", [&] { forward_rows<scalar_t>(call); });
}

void norm_rows_backward(const NormBackward& call) {
  AT_DISPATCH_FLOATING_TYPES(call.sum.scalar_type(), "cogwheel::norm_of_sum_backward",
                             [&] { backward_rows<scalar_t>(call); });
}

}  // namespace cogwheel::ops
