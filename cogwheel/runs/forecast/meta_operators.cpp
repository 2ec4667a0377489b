#include "cogwheel/runs/forecast/meta_operators.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

namespace cogwheel::runs {
namespace {

at::Tensor selected(const at::Tensor& self, std::int64_t dimension, const at::Tensor& index) {
  std::vector<std::int64_t> sizes = self.sizes().vec();
  if (!sizes.empty()) sizes[static_cast<std::size_t>(at::maybe_wrap_dim(dimension, self.dim()))] = index.numel();
  return at::empty(sizes, self.options());
}

at::Tensor gradient_of_embedding(const at::Tensor& gradient, const at::Tensor&, c10::SymInt rows, c10::SymInt, bool) {
  return at::empty({rows.expect_int(), gradient.size(-1)}, gradient.options());
}

at::Tensor chosen(const at::Tensor& condition, const at::Tensor& self, const at::Tensor& other) {
  return at::empty(at::infer_size(condition.sizes(), at::infer_size(self.sizes(), other.sizes())), self.options());
}

at::Tensor& absolute(const at::Tensor& self, at::Tensor& out) {
  out.resize_(self.sizes());
  return out;
}

at::Tensor gradient_of_squares(const at::Tensor&, const at::Tensor& self, const at::Tensor&, std::int64_t) {
  return at::empty_like(self);
}

std::tuple<at::Tensor, at::Tensor> log_sigmoid(const at::Tensor& self) {
  return {at::empty_like(self), at::empty_like(self)};  // and exp(-|x|), as on the CPU
}

at::Tensor gradient_of_log_sigmoid(const at::Tensor&, const at::Tensor& self, const at::Tensor&) {
  return at::empty_like(self);
}

using Sizes = c10::SymIntArrayRef;

at::Tensor convolved(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>&, Sizes stride,
                     Sizes padding, Sizes dilation, bool transposed, Sizes output_padding, c10::SymInt groups) {
  std::vector<std::int64_t> sizes{input.size(0), transposed ? weight.size(1) * groups.expect_int() : weight.size(0)};
  for (std::size_t axis = 0; axis < stride.size(); ++axis) {
    const auto place = static_cast<std::int64_t>(axis) + 2;
    const std::int64_t step = stride[axis].expect_int(), around = 2 * padding[axis].expect_int(),
                       reach = dilation[axis].expect_int() * (weight.size(place) - 1), length = input.size(place);
    sizes.push_back(transposed ? (length - 1) * step - around + reach + output_padding[axis].expect_int() + 1
                               : (length + around - reach - 1) / step + 1);
  }
  return at::empty(sizes, input.options());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> gradients_of_convolution(const at::Tensor& gradient,
                                                                        const at::Tensor& input,
                                                                        const at::Tensor& weight, Sizes, Sizes, Sizes,
                                                                        bool, Sizes, c10::SymInt,
                                                                        std::array<bool, 3> wanted) {
  const auto like = [](const at::Tensor& other, bool is_wanted) {
    return is_wanted ? at::empty_like(other) : at::Tensor();
  };
  return {like(input, wanted[0]), like(weight, wanted[1]),
          wanted[2] ? at::empty({gradient.size(1)}, gradient.options()) : at::Tensor()};
}

bool is_missing(const char* name, const char* overload) {
  return !c10::Dispatcher::singleton()
              .findSchemaOrThrow(name, overload)
              .hasKernelForDispatchKey(c10::DispatchKey::Meta);
}

}  // namespace

MetaOperators::MetaOperators() : library_(torch::Library::IMPL, "aten", c10::DispatchKey::Meta, __FILE__, __LINE__) {
  if (is_missing("aten::index_select", "")) library_.impl("index_select", selected);
  if (is_missing("aten::embedding_dense_backward", ""))
    library_.impl("embedding_dense_backward", gradient_of_embedding);
  if (is_missing("aten::where", "self")) library_.impl("where.self", chosen);
  if (is_missing("aten::abs", "out")) library_.impl("abs.out", absolute);
  if (is_missing("aten::mse_loss_backward", "")) library_.impl("mse_loss_backward", gradient_of_squares);
  if (is_missing("aten::log_sigmoid_forward", "")) library_.impl("log_sigmoid_forward", log_sigmoid);
  if (is_missing("aten::log_sigmoid_backward", "")) library_.impl("log_sigmoid_backward", gradient_of_log_sigmoid);
  if (is_missing("aten::convolution_overrideable", "")) library_.impl("convolution_overrideable", convolved);
  if (is_missing("aten::convolution_backward_overrideable", ""))
    library_.impl("convolution_backward_overrideable", gradients_of_convolution);
}

}  // namespace cogwheel::runs
