#include "cogwheel/nn/residual_norm.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <type_traits>
#include <vector>

#include "cogwheel/core/bfloat16.h"
#include "cogwheel/nn/row_loops.h"

namespace cogwheel {
namespace {

// Rows whose contributions to the gradients of weight and bias are added before those of other blocks are.
constexpr std::int64_t block_rows = 64;

// What a row is normalised by: (x − mean) · inverse. The mean of an RMSNorm counts as 0.
template <class T>
struct Moments {
  T mean, inverse;
};

template <class T>
[[gnu::always_inline]] inline Moments<T> normalise(const T* x, const T* gain, const T* bias, std::int64_t width,
                                                   NormKind kind, double epsilon, T* y) {
  const T count = static_cast<T>(width);
  const T mean = kind == NormKind::layer ? sum_of<T>(width, [=](std::int64_t i) { return x[i]; }) / count : T(0);
  const T squares = sum_of<T>(width, [=](std::int64_t i) { return (x[i] - mean) * (x[i] - mean); });
  const T inverse = 1 / std::sqrt(squares / count + static_cast<T>(epsilon));
  if (bias)
    for (std::int64_t i = 0; i < width; ++i) y[i] = (x[i] - mean) * inverse * gain[i] + bias[i];
  else
    for (std::int64_t i = 0; i < width; ++i) y[i] = (x[i] - mean) * inverse * gain[i];
  return {mean, inverse};
}

// With n the normalised row and g = dy∘gain:  dx += (g − mean(g) − n mean(g∘n)) · inverse, the second term for a
// LayerNorm alone;  gains += dy∘n,  biases += dy.
template <class T>
[[gnu::always_inline]] inline void differentiate(const T* x, const T* gain, const T* dy, Moments<T> moments,
                                                 std::int64_t width, NormKind kind, T* dx, T* gains, T* biases) {
  const auto [mean, inverse] = moments;
  const T count = static_cast<T>(width);
  const T along = sum_of<T>(width, [=](std::int64_t i) { return dy[i] * gain[i] * (x[i] - mean) * inverse; }) / count;
  const T shift =
      kind == NormKind::layer ? sum_of<T>(width, [=](std::int64_t i) { return dy[i] * gain[i]; }) / count : T(0);
  for (std::int64_t i = 0; i < width; ++i) {
    const T normed = (x[i] - mean) * inverse;
    gains[i] += dy[i] * normed;
    biases[i] += dy[i];
    dx[i] += inverse * (dy[i] * gain[i] - shift - normed * along);
  }
}

// The same by type, for the best instructions.
COGWHEEL_FOR_EACH_X86 Moments<float> normalise_row(const float* x, const float* gain, const float* bias,
                                                   std::int64_t width, NormKind kind, double epsilon, float* y) {
  return normalise(x, gain, bias, width, kind, epsilon, y);
}
Moments<double> normalise_row(const double* x, const double* gain, const double* bias, std::int64_t width,
                              NormKind kind, double epsilon, double* y) {
  return normalise(x, gain, bias, width, kind, epsilon, y);
}
COGWHEEL_FOR_EACH_X86 void differentiate_row(const float* x, const float* gain, const float* dy, Moments<float> moments,
                                             std::int64_t width, NormKind kind, float* dx, float* gains,
                                             float* biases) {
  differentiate(x, gain, dy, moments, width, kind, dx, gains, biases);
}
void differentiate_row(const double* x, const double* gain, const double* dy, Moments<double> moments,
                       std::int64_t width, NormKind kind, double* dx, double* gains, double* biases) {
  differentiate(x, gain, dy, moments, width, kind, dx, gains, biases);
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

  // Where the row lies, or a widened copy.
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

struct Forward {
  at::Tensor x, delta, weight, bias;  // delta and bias may be undefined
  NormKind kind;
  double epsilon;
  at::Tensor sum, normed, moments;  // sum is x where delta is undefined; moments [rows, 2]
};

template <class T>
void forward_rows(const Forward& call) {
  const std::int64_t width = call.x.size(1);
  const RowsOf<T> x(call.x), delta(call.delta), sums(call.sum), normed(call.normed);
  const T *gain = call.weight.const_data_ptr<T>(),
          *bias = call.bias.defined() ? call.bias.const_data_ptr<T>() : nullptr;
  auto* moments = reinterpret_cast<Moments<T>*>(call.moments.mutable_data_ptr<T>());
  at::parallel_for(0, call.x.size(0), block_rows, [&](std::int64_t begin, std::int64_t end) {
    std::vector<T> buffer(static_cast<std::size_t>(width));
    for (std::int64_t row = begin; row < end; ++row) {
      const T* sum = x.read(row, nullptr);
      if (delta.exist()) {
        T* added = sums.begin(row, nullptr);
        add_row(sum, delta.read(row, buffer.data()), width, added);
        sum = added;
      }
      moments[row] = normalise_row(sum, gain, bias, width, call.kind, call.epsilon, normed.begin(row, buffer.data()));
      normed.written(row, buffer.data());
    }
  });
}

struct Backward {
  at::Tensor sum, weight, moments;           // of forward
  at::Tensor sum_gradient, normed_gradient;  // the first may be undefined
  NormKind kind;
  at::Tensor x_gradient, delta_gradient;  // the second undefined where the first serves both
  at::Tensor weight_gradient, bias_gradient;
};

template <class T>
void backward_rows(const Backward& call) {
  const std::int64_t rows = call.sum.size(0), width = call.sum.size(1), blocks = (rows + block_rows - 1) / block_rows;
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
        if (to_sum.exist())
          std::copy_n(to_sum.read(row, nullptr), width, dx);
        else
          std::fill_n(dx, width, T(0));
        differentiate_row(sums.read(row, nullptr), gain, to_normed.read(row, buffer.data()), moments[row], width,
                          call.kind, dx, gains, biases);
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

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// x and delta [rows, width], contiguous. Without delta there is one output, normed.
struct NormOfSumFunction : torch::autograd::Function<NormOfSumFunction> {
  static variable_list forward(AutogradContext* context, const at::Tensor& x, const std::optional<at::Tensor>& given,
                               const at::Tensor& weight, const std::optional<at::Tensor>& given_bias, int kind,
                               double epsilon, bool in_bfloat16) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const at::Tensor delta = given.value_or(at::Tensor()), bias = given_bias.value_or(at::Tensor());
    Forward call{x, delta, weight, bias, static_cast<NormKind>(kind), epsilon, {}, {}, {}};
    call.sum = delta.defined() ? at::empty_like(x) : x;
    call.normed = in_bfloat16 ? at::empty_like(x, x.options().dtype(at::kBFloat16)) : at::empty_like(x);
    call.moments = at::empty({x.size(0), 2}, x.options());
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "norm_of_sum", [&] { forward_rows<scalar_t>(call); });
    context->save_for_backward({call.sum, weight, call.moments});
    context->saved_data["kind"] = kind;
    context->saved_data["has_delta"] = delta.defined();
    context->saved_data["delta_in_bfloat16"] = delta.defined() && delta.scalar_type() != x.scalar_type();
    context->saved_data["has_bias"] = bias.defined();
    context->set_materialize_grads(false);
    return delta.defined() ? variable_list{call.normed, call.sum} : variable_list{call.normed};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    TORCH_CHECK_NOT_IMPLEMENTED(!at::GradMode::is_enabled(), "norm: derivative: expected the first, got the second");
    const auto saved = context->get_saved_variables();
    const bool has_delta = context->saved_data["has_delta"].toBool();
    const at::Tensor sum_gradient = has_delta && gradients[1].defined() ? gradients[1].contiguous() : at::Tensor();
    at::Tensor none;
    if (!gradients[0].defined()) {
      const bool rounds = sum_gradient.defined() && context->saved_data["delta_in_bfloat16"].toBool();
      return {sum_gradient, rounds ? sum_gradient.to(at::kBFloat16) : sum_gradient, none, none, none, none, none};
    }
    Backward call{saved[0],
                  saved[1],
                  saved[2],
                  sum_gradient,
                  gradients[0].contiguous(),
                  static_cast<NormKind>(context->saved_data["kind"].toInt()),
                  at::empty_like(saved[0]),
                  {},
                  at::zeros_like(saved[1]),
                  at::zeros_like(saved[1])};
    if (context->saved_data["delta_in_bfloat16"].toBool())
      call.delta_gradient = at::empty_like(saved[0], saved[0].options().dtype(at::kBFloat16));
    AT_DISPATCH_FLOATING_TYPES(saved[0].scalar_type(), "norm_of_sum", [&] { backward_rows<scalar_t>(call); });
    const at::Tensor to_delta = call.delta_gradient.defined() ? call.delta_gradient : call.x_gradient;
    return {call.x_gradient,
            has_delta ? to_delta : none,
            call.weight_gradient,
            context->saved_data["has_bias"].toBool() ? call.bias_gradient : none,
            none,
            none,
            none};
  }
};

at::Tensor as_rows(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}).contiguous(); }

std::optional<at::Tensor> if_defined(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

}  // namespace

double default_epsilon(NormKind kind) { return kind == NormKind::layer ? 1e-5 : 1e-6; }

NormOfSum norm_of_sum(const at::Tensor& x, const at::Tensor& delta, const at::Tensor& weight, const at::Tensor& bias,
                      NormKind kind, double epsilon, bool in_bfloat16) {
  if (delta.defined())
    TORCH_CHECK_VALUE(
        delta.sizes() == x.sizes() && (delta.scalar_type() == x.scalar_type() ||
                                       (delta.scalar_type() == at::kBFloat16 && x.scalar_type() == at::kFloat)),
        "norm_of_sum: delta: expected the shape and type of x, or bfloat16 beside float32, got ", delta.sizes(), " ",
        delta.scalar_type());
  const auto outputs = NormOfSumFunction::apply(
      as_rows(x), delta.defined() ? std::optional(as_rows(delta)) : std::nullopt, weight, if_defined(bias),
      static_cast<int>(kind), epsilon, in_bfloat16 && x.scalar_type() == at::kFloat);
  return {delta.defined() ? outputs[1].view(x.sizes()) : x, outputs[0].view(x.sizes())};
}

}  // namespace cogwheel
