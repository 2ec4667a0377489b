#include "cogwheel/ops/layers/matrix_product_library.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstdlib>
#include <optional>
#include <utility>

#include "cogwheel/attention/kernels/cpu/pair_product.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/process/kept_choice.h"
#include "cogwheel/core/process/thread_time.h"
#include "cogwheel/ops/layers/row_order.h"

namespace cogwheel::ops {
namespace {

using OneDnnLinear = at::Tensor(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                                std::string_view attribute, c10::List<std::optional<at::Scalar>> scalars,
                                std::optional<std::string_view> algorithm);

// The operator that torch.compile uses for the same purpose; builds for other architectures may lack it.
const std::optional<c10::TypedOperatorHandle<OneDnnLinear>>& onednn_linear() {
  static const auto found = []() -> std::optional<c10::TypedOperatorHandle<OneDnnLinear>> {
    const auto handle = c10::Dispatcher::singleton().findSchema({"mkldnn::_linear_pointwise", ""});
    if (!handle || !handle->hasKernelForDispatchKey(c10::DispatchKey::CPU)) return std::nullopt;
    return handle->typed<OneDnnLinear>();
  }();
  return found;
}

std::string_view blas() { return at::hasMKL() ? "MKL" : "BLAS"; }

// MKL uses AVX-512 on Intel's CPUs only.
bool mkl_leaves_avx512_unused() {
#if defined(__x86_64__)
  return !__builtin_cpu_is("intel") && __builtin_cpu_supports("avx512f");
#else
  return true;
#endif
}

std::string_view choose_library() {
  const char* const variable = std::getenv("COGWHEEL_MATRIX_PRODUCTS");
  const std::string_view wanted = variable ? variable : "";
  if (wanted.empty()) {
    const bool by_onednn = onednn_linear() && !(at::hasMKL() && !mkl_leaves_avx512_unused());
    return by_onednn ? onednn : blas();
  }
  const std::string here = std::string(onednn_linear() ? "onednn or " : "") + (at::hasMKL() ? "mkl" : "blas");
  if (wanted == "onednn" && onednn_linear()) return onednn;
  if (wanted == (at::hasMKL() ? "mkl" : "blas")) return blas();
  throw UsageError(expected_got("COGWHEEL_MATRIX_PRODUCTS", here, wanted));
}

// Where attention multiplies pairs of bfloat16, libtorch's library does so too.
std::string_view usual_product_of_layers() {
#if defined(__x86_64__)
  return usual_product() == widened ? widened : native;
#else
  return native;
#endif
}

KeptChoice<LayerProductChoice> kept_layer_product;

LayerProductChoice choose() {
  if (const std::string_view forced = forced_product(); !forced.empty()) {
    product_choice();  // refuses what this machine lacks
    return {forced == widened ? widened : native, "COGWHEEL_PRODUCT"};
  }
  const BestProduct best = best_product(measure_layer_products());
  return {best.product, std::string(best.reason)};
}

// Some product of a small model's layer, whatever the type of its operands.
class Measured {
 public:
  double seconds(std::string_view product) const {
    const double begin = thread_seconds();
    if (product == native)
      at::linear(x_, weight_);
    else
      widened_product(x_, weight_, {});
    return thread_seconds() - begin;
  }
  static constexpr double flops = 2.0 * 256 * 512 * 1024;

 private:
  static at::Tensor filled(std::int64_t rows, std::int64_t width) {
    return at::full({rows, width}, 0.5, at::TensorOptions().dtype(at::kBFloat16));
  }
  at::Tensor x_ = filled(256, 512), weight_ = filled(1024, 512);
};

// This thread alone: what others do with the other processors meanwhile must not count.
class OneThread {
 public:
  OneThread() { at::set_num_threads(1); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;
  ~OneThread() { at::set_num_threads(before_); }

 private:
  int before_ = at::get_num_threads();
};

}  // namespace

std::string_view matrix_product_library() {
  static const std::string_view chosen = choose_library();
  return chosen;
}

at::Tensor float_product(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias) {
  if (matrix_product_library() != onednn) return at::linear(x, weight, bias);
  return onednn_linear()->call(in_row_order(x), in_row_order(weight), bias, "none",
                               c10::List<std::optional<at::Scalar>>(), "");
}

at::Tensor widened_product(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias) {
  const OptionalTensor wide_bias = bias ? OptionalTensor(bias->to(at::kFloat)) : std::nullopt;
  return float_product(x.to(at::kFloat), weight.to(at::kFloat), wide_bias).to(at::kBFloat16);
}

const LayerProductChoice& layer_product_choice() { return kept_layer_product.get_or(choose); }

void choose_layer_product(std::string_view product, std::string reason) {
  if (forced_product().empty()) kept_layer_product.set({product == widened ? widened : native, std::move(reason)});
}

std::vector<ProductRate> measure_layer_products() {
  const c10::impl::ExcludeDispatchKeyGuard without_autocast(c10::autocast_dispatch_keyset);
  const at::AutoDispatchBelowADInplaceOrView below;
  const OneThread alone;
  const std::string_view usual = usual_product_of_layers();
  const Measured measured;
  return rates_in_turns({usual, usual == native ? widened : native}, Measured::flops,
                        [&](std::string_view product) { return measured.seconds(product); });
}

}  // namespace cogwheel::ops
