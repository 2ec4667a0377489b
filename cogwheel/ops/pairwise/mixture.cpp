#include "cogwheel/ops/pairwise/mixture.h"

#include <ATen/Dispatch.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <vector>

#include "cogwheel/ops/support/contiguous_width.h"
#include "cogwheel/ops/support/engine_registration.h"
#include "cogwheel/ops/support/executor.h"
#include "cogwheel/ops/support/find_operator.h"
#include "cogwheel/ops/support/recorded_node.h"

namespace cogwheel::ops {
namespace {

// Rows of contiguous width, at any strides.
template <class T>
class Rows {
 public:
  explicit Rows(const at::Tensor& tensor) : data_(static_cast<T*>(tensor.data_ptr())), strides_(tensor.strides()) {}
  T* at(std::int64_t batch, std::int64_t head, std::int64_t row) const {
    return data_ + batch * strides_[0] + head * strides_[1] + row * strides_[2];
  }

 private:
  T* data_;
  at::IntArrayRef strides_;
};

// λ of a row, broadcast by strides of 0.
template <class T>
T coefficient_of(const at::Tensor& expanded, std::int64_t batch, std::int64_t head, std::int64_t row) {
  return static_cast<const T*>(
      expanded.const_data_ptr())[batch * expanded.stride(0) + head * expanded.stride(1) + row * expanded.stride(2)];
}

// The layout of one head's worth of `output`: a slice keeps the order of its dimensions.
at::Tensor empty_difference(const at::Tensor& output) {
  return at::empty_like(output.slice_symint(1, 0, c10::nullopt, 2));
}

at::Tensor subtract_sub_heads_cpu(const at::Tensor& output_, const at::Tensor& coefficient) {
  const at::Tensor output = with_contiguous_width(output_);
  const at::Tensor difference = with_contiguous_width(empty_difference(output_));
  const std::int64_t heads = difference.size(1), rows = difference.size(2), width = difference.size(3);
  const at::Tensor expanded = coefficient.expand({difference.size(0), heads, rows});
  AT_DISPATCH_FLOATING_TYPES(output.scalar_type(), "cogwheel::subtract_sub_heads", [&] {
    const Rows<scalar_t> from(output), to(difference);
    TorchExecutor().run(difference.size(0) * heads, [&](std::int64_t index, int) {
      const std::int64_t batch = index / heads, head = index % heads;
      for (std::int64_t row = 0; row < rows; ++row) {
        const scalar_t lambda = coefficient_of<scalar_t>(expanded, batch, head, row);
        const scalar_t *first = from.at(batch, 2 * head, row), *second = from.at(batch, 2 * head + 1, row);
        scalar_t* sum = to.at(batch, head, row);
        for (std::int64_t x = 0; x < width; ++x) sum[x] = first[x] - lambda * second[x];
      }
    });
  });
  return difference;
}

std::tuple<at::Tensor, at::Tensor> subtract_sub_heads_backward_cpu(const at::Tensor& gradient_,
                                                                   const at::Tensor& output_,
                                                                   const at::Tensor& coefficient) {
  const at::Tensor gradient = with_contiguous_width(gradient_), output = with_contiguous_width(output_);
  const at::Tensor output_gradient = with_contiguous_width(at::empty_like(output_));
  const at::Tensor coefficient_gradient = at::zeros_like(coefficient, {}, {}, {}, {}, at::MemoryFormat::Contiguous);
  const std::int64_t batches = gradient.size(0), heads = gradient.size(1), rows = gradient.size(2),
                     width = gradient.size(3);
  const at::Tensor expanded = coefficient.expand({batches, heads, rows});
  std::vector<double> of_rows(static_cast<std::size_t>(batches * heads * rows));  // −do·o₂
  AT_DISPATCH_FLOATING_TYPES(output.scalar_type(), "cogwheel::subtract_sub_heads_backward", [&] {
    const Rows<scalar_t> given(gradient), from(output), to(output_gradient);
    TorchExecutor().run(batches * heads, [&](std::int64_t index, int) {
      const std::int64_t batch = index / heads, head = index % heads;
      for (std::int64_t row = 0; row < rows; ++row) {
        const scalar_t lambda = coefficient_of<scalar_t>(expanded, batch, head, row);
        const scalar_t *d = given.at(batch, head, row), *second = from.at(batch, 2 * head + 1, row);
        scalar_t *first_gradient = to.at(batch, 2 * head, row), *second_gradient = to.at(batch, 2 * head + 1, row);
        double dot = 0;
        for (std::int64_t x = 0; x < width; ++x) {
          first_gradient[x] = d[x];
          second_gradient[x] = -lambda * d[x];
          dot += static_cast<double>(d[x]) * static_cast<double>(second[x]);
        }
        of_rows[static_cast<std::size_t>(index * rows + row)] = -dot;
      }
    });
    // In index order on one thread: the same bits for any number of threads.
    std::vector<double> sums(static_cast<std::size_t>(coefficient.numel()));
    const bool by_batch = coefficient.size(0) > 1, by_head = coefficient.size(1) > 1, by_row = coefficient.size(2) > 1;
    for (std::int64_t batch = 0; batch < batches; ++batch)
      for (std::int64_t head = 0; head < heads; ++head)
        for (std::int64_t row = 0; row < rows; ++row) {
          const std::int64_t to_sum =
              ((by_batch ? batch : 0) * coefficient.size(1) + (by_head ? head : 0)) * coefficient.size(2) +
              (by_row ? row : 0);
          sums[static_cast<std::size_t>(to_sum)] +=
              of_rows[static_cast<std::size_t>((batch * heads + head) * rows + row)];
        }
    scalar_t* sum = coefficient_gradient.mutable_data_ptr<scalar_t>();
    for (std::size_t i = 0; i < sums.size(); ++i) sum[i] = static_cast<scalar_t>(sums[i]);
  });
  return {output_gradient, coefficient_gradient};
}

at::Tensor subtract_sub_heads_meta(const at::Tensor& output, const at::Tensor&) { return empty_difference(output); }

std::tuple<at::Tensor, at::Tensor> subtract_sub_heads_backward_meta(const at::Tensor&, const at::Tensor& output,
                                                                    const at::Tensor& coefficient) {
  return {at::empty_like(output), at::empty_like(coefficient, {}, {}, {}, {}, at::MemoryFormat::Contiguous)};
}

// The same in ATen's operators, for tangents, second derivatives and devices without an engine.
variable_list composed_difference(const variable_list& inputs) {
  const at::Tensor &output = inputs[0], &coefficient = inputs[1];
  const auto of_sub_head = [&](std::int64_t c) { return output.slice_symint(1, c, c10::nullopt, 2); };
  return {of_sub_head(0) - coefficient.unsqueeze(-1) * of_sub_head(1)};
}

variable_list composed_difference_backward(const variable_list& inputs) {
  const at::Tensor &gradient = inputs[0], &output = inputs[1], &coefficient = inputs[2];
  const at::Tensor second = output.slice_symint(1, 1, c10::nullopt, 2);
  return {at::stack({gradient, -(coefficient.unsqueeze(-1) * gradient)}, 2).flatten(1, 2),
          -(gradient * second).sum(-1).sum_to_size_symint(coefficient.sym_sizes())};
}

at::Tensor subtract_sub_heads_composed(const at::Tensor& output, const at::Tensor& coefficient) {
  return composed_difference({output, coefficient})[0];
}

std::tuple<at::Tensor, at::Tensor> subtract_sub_heads_backward_composed(const at::Tensor& gradient,
                                                                        const at::Tensor& output,
                                                                        const at::Tensor& coefficient) {
  const variable_list gradients = composed_difference_backward({gradient, output, coefficient});
  return {gradients[0], gradients[1]};
}

at::Tensor subtract_sub_heads_autograd(const at::Tensor& output, const at::Tensor& coefficient) {
  const variable_list inputs{output, coefficient};
  if (has_tangent(inputs)) return composed_difference(inputs)[0];
  at::Tensor difference;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    difference = subtract_sub_heads(output, coefficient);
  }
  if (needs_record(inputs))
    record("SubtractSubHeadsBackward", inputs, {difference}, {},
           [](const variable_list& saved, const variable_list&, const variable_list& gradients) {
             const auto [of_output, of_coefficient] = subtract_sub_heads_backward(gradients[0], saved[0], saved[1]);
             return variable_list{of_output, of_coefficient};
           });
  return difference;
}

std::tuple<at::Tensor, at::Tensor> subtract_sub_heads_backward_autograd(const at::Tensor& gradient,
                                                                        const at::Tensor& output,
                                                                        const at::Tensor& coefficient) {
  const auto fused = [&] {
    const auto [of_output, of_coefficient] = subtract_sub_heads_backward(gradient, output, coefficient);
    return variable_list{of_output, of_coefficient};
  };
  const variable_list outputs = differentiated_by("SubtractSubHeadsBackwardBackward", {gradient, output, coefficient},
                                                  fused, composed_difference_backward);
  return {outputs[0], outputs[1]};
}

}  // namespace

at::Tensor subtract_sub_heads(const at::Tensor& output, const at::Tensor& coefficient) {
  static const auto handle =
      find_operator<at::Tensor(const at::Tensor&, const at::Tensor&)>("cogwheel::subtract_sub_heads");
  return handle.call(output, coefficient);
}

std::tuple<at::Tensor, at::Tensor> subtract_sub_heads_backward(const at::Tensor& gradient, const at::Tensor& output,
                                                               const at::Tensor& coefficient) {
  static const auto handle =
      find_operator<std::tuple<at::Tensor, at::Tensor>(const at::Tensor&, const at::Tensor&, const at::Tensor&)>(
          "cogwheel::subtract_sub_heads_backward");
  return handle.call(gradient, output, coefficient);
}

TORCH_LIBRARY_FRAGMENT(cogwheel, library) {
  library.def("subtract_sub_heads(Tensor output, Tensor coefficient) -> Tensor");
  library.def("subtract_sub_heads_backward(Tensor gradient, Tensor output, Tensor coefficient) -> (Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(cogwheel, CPU, library) {
  implement_fused(library, "subtract_sub_heads", subtract_sub_heads_cpu);
  implement_fused(library, "subtract_sub_heads_backward", subtract_sub_heads_backward_cpu);
}

TORCH_LIBRARY_IMPL(cogwheel, CompositeExplicitAutograd, library) {
  library.impl("subtract_sub_heads", subtract_sub_heads_composed);
  library.impl("subtract_sub_heads_backward", subtract_sub_heads_backward_composed);
}

TORCH_LIBRARY_IMPL(cogwheel, Meta, library) {
  library.impl("subtract_sub_heads", subtract_sub_heads_meta);
  library.impl("subtract_sub_heads_backward", subtract_sub_heads_backward_meta);
}

TORCH_LIBRARY_IMPL(cogwheel, Autograd, library) {
  library.impl("subtract_sub_heads", subtract_sub_heads_autograd);
  library.impl("subtract_sub_heads_backward", subtract_sub_heads_backward_autograd);
}

}  // namespace cogwheel::ops
