#include "cogwheel/ops/recurrent/normalized_sums.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/where.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>

#include "cogwheel/ops/recurrent/recurrent_checks.h"
#include "cogwheel/ops/support/bundle.h"
#include "cogwheel/ops/support/find_operator.h"
#include "cogwheel/ops/support/recorded_node.h"

namespace cogwheel::ops {
namespace {

constexpr std::int64_t rows_per_task = 64, numbers_per_task = 4096;

at::Tensor empty_of_width(const at::Tensor& like, const c10::SymInt& width) {
  c10::SymDimVector sizes(like.sym_sizes());
  sizes.back() = width;
  return at::empty_symint(sizes, like.options());
}

// What numerators are divided by, and its derivative by the sums' last column.
template <class T>
struct Denominator {
  T value, slope;

  Denominator(T total, const T* least) : value(total), slope(1) {
    if (!least) return;
    const bool counts = !(std::abs(total) < *least);  // a NaN does
    value = counts ? std::abs(total) : *least;
    slope = !counts ? T(0) : total < T(0) ? T(-1) : T(1);
  }
};

at::Tensor normalized_cpu(const at::Tensor& sums_, const OptionalTensor& least_) {
  const at::Tensor sums = sums_.contiguous(), output = empty_of_width(sums, sums.size(-1) - 1);
  const at::Tensor least = least_ ? least_->contiguous() : at::Tensor();
  const std::int64_t width = output.size(-1);
  AT_DISPATCH_FLOATING_TYPES(sums.scalar_type(), "cogwheel::normalized_sums", [&] {
    const scalar_t* from = sums.const_data_ptr<scalar_t>();
    const scalar_t* leasts = least_ ? least.const_data_ptr<scalar_t>() : nullptr;
    scalar_t* to = output.mutable_data_ptr<scalar_t>();
    at::parallel_for(0, sums.numel() / (width + 1), rows_per_task, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const scalar_t* x = from + row * (width + 1);
        const scalar_t total = Denominator<scalar_t>(x[width], leasts ? leasts + row : nullptr).value;
        scalar_t* y = to + row * width;
        if (total == scalar_t(0))
          std::fill_n(y, width, scalar_t(0));
        else
          for (std::int64_t i = 0; i < width; ++i) y[i] = x[i] / total;
      }
    });
  });
  return output;
}

// On devices that have no loops of ours: what each row is divided by, [..., 1].
at::Tensor denominator_of(const at::Tensor& sums, const OptionalTensor& least) {
  const at::Tensor total = sums.narrow_symint(-1, sums.sym_size(-1) - 1, 1);
  if (!least) return total;
  const at::Tensor size = total.abs(), bound = least->unsqueeze(-1);
  return at::where(size.lt(bound), bound, size);
}
at::Tensor normalized_by_quotients(const at::Tensor& sums, const OptionalTensor& least) {
  const at::Tensor total = denominator_of(sums, least);
  return (sums.narrow_symint(-1, 0, sums.sym_size(-1) - 1) / total).masked_fill(total.eq(0), 0).contiguous();
}
at::Tensor normalized_back_by_quotients(const at::Tensor& gradient, const at::Tensor& sums,
                                        const OptionalTensor& least) {
  const c10::SymInt width = gradient.sym_size(-1);
  const at::Tensor total = denominator_of(sums, least);
  const at::Tensor of_numbers = (gradient / total).masked_fill(total.eq(0), 0);
  at::Tensor of_total = (of_numbers * sums.narrow_symint(-1, 0, width)).sum(-1, true).div(total).neg();
  if (least) {
    const at::Tensor last = sums.narrow_symint(-1, width, 1);
    of_total = at::where(last.lt(0), of_total.neg(), of_total).masked_fill(last.abs().lt(least->unsqueeze(-1)), 0);
  }
  return at::cat({of_numbers, of_total.masked_fill(total.eq(0), 0)}, -1);
}

at::Tensor normalized_meta(const at::Tensor& sums, const OptionalTensor&) {
  return empty_of_width(sums, sums.sym_size(-1) - 1);
}

// Of x: do / total; of the total: −(do·o) / total.
at::Tensor normalized_backward_cpu(const at::Tensor& gradient_, const at::Tensor& sums_, const OptionalTensor& least_) {
  const at::Tensor gradient = gradient_.contiguous(), sums = sums_.contiguous(), of_sums = at::empty_like(sums);
  const at::Tensor least = least_ ? least_->contiguous() : at::Tensor();
  const std::int64_t width = gradient.size(-1);
  AT_DISPATCH_FLOATING_TYPES(sums.scalar_type(), "cogwheel::normalized_sums_backward", [&] {
    const scalar_t *gradients = gradient.const_data_ptr<scalar_t>(), *from = sums.const_data_ptr<scalar_t>();
    const scalar_t* leasts = least_ ? least.const_data_ptr<scalar_t>() : nullptr;
    scalar_t* to = of_sums.mutable_data_ptr<scalar_t>();
    at::parallel_for(0, sums.numel() / (width + 1), rows_per_task, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const scalar_t *x = from + row * (width + 1), *g = gradients + row * width;
        const auto [total, slope] = Denominator<scalar_t>(x[width], leasts ? leasts + row : nullptr);
        scalar_t* y = to + row * (width + 1);
        if (total == scalar_t(0)) {
          std::fill_n(y, width + 1, scalar_t(0));
          continue;
        }
        // Eight sums beside each other, which the compiler holds in vectors.
        scalar_t partial[8] = {}, of_total = 0;
        std::int64_t i = 0;
        for (; i + 8 <= width; i += 8)
          for (int k = 0; k < 8; ++k) {
            y[i + k] = g[i + k] / total;
            partial[k] += y[i + k] * x[i + k];
          }
        for (; i < width; ++i) {
          y[i] = g[i] / total;
          of_total += y[i] * x[i];
        }
        for (const scalar_t sum : partial) of_total += sum;
        y[width] = -slope * (of_total / total);
      }
    });
  });
  return of_sums;
}

at::Tensor normalized_backward_meta(const at::Tensor&, const at::Tensor& sums, const OptionalTensor&) {
  return at::empty_symint(sums.sym_sizes(), sums.options());
}

at::Tensor normalized_backward(const at::Tensor& gradient, const at::Tensor& sums, const OptionalTensor& least) {
  static const auto handle = find_operator<decltype(normalized_backward)>("cogwheel::normalized_sums_backward");
  return handle.call(gradient, sums, least);
}

at::Tensor normalized_autograd(const at::Tensor& sums, const OptionalTensor& least) {
  if (has_tangent({sums})) refuse_recurrent_derivative("a tangent");
  at::Tensor output;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    output = normalized_sums(sums, least);
  }
  if (needs_record({sums}))
    record_saving("NormalizedSumsBackward", {sums}, {output},
                  {.inputs = {sums}, .outputs = {}, .constants = {or_undefined(least)}},
                  [](const variable_list& given, const variable_list& constants, const variable_list& gradients) {
                    return variable_list{normalized_backward(gradients[0], given[0], or_none(constants[0]))};
                  });
  return output;
}

at::Tensor elu_cpu(const at::Tensor& x) {
  const at::Tensor from = x.contiguous(), to = from.clamp_max(0).exp_();
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "cogwheel::elu_plus_one", [&] {
    const scalar_t* numbers = from.const_data_ptr<scalar_t>();
    scalar_t* sums = to.mutable_data_ptr<scalar_t>();
    at::parallel_for(0, from.numel(), numbers_per_task, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) sums[i] += numbers[i] > scalar_t(0) ? numbers[i] : scalar_t(0);
    });
  });
  return to;
}

at::Tensor elu_by_parts(const at::Tensor& x) { return (x.clamp_max(0).exp() + at::where(x.gt(0), x, 0)).contiguous(); }

at::Tensor elu_meta(const at::Tensor& x) { return at::empty_symint(x.sym_sizes(), x.options()); }

// The derivative is 1 above 0, and exp(x) = φ below: the lesser of φ and 1.
at::Tensor elu_autograd(const at::Tensor& x) {
  at::Tensor mapped;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    mapped = elu_plus_one(x);
  }
  if (has_tangent({x})) refuse_recurrent_derivative("a tangent");
  if (needs_record({x}))
    record_saving("EluPlusOneBackward", {x}, {mapped}, {.inputs = {}, .outputs = {mapped}, .constants = {}},
                  [](const variable_list&, const variable_list& outputs, const variable_list& gradients) {
                    return variable_list{gradients[0] * outputs[0].clamp_max(1)};
                  });
  return mapped;
}

}  // namespace

at::Tensor normalized_sums(const at::Tensor& sums, const OptionalTensor& least) {
  static const auto handle = find_operator<decltype(normalized_sums)>("cogwheel::normalized_sums");
  return handle.call(sums, least);
}

at::Tensor elu_plus_one(const at::Tensor& x) {
  static const auto handle = find_operator<decltype(elu_plus_one)>("cogwheel::elu_plus_one");
  return handle.call(x);
}

TORCH_LIBRARY_FRAGMENT(cogwheel, library) {
  library.def("normalized_sums(Tensor sums, Tensor? least) -> Tensor");
  library.def("normalized_sums_backward(Tensor gradient, Tensor sums, Tensor? least) -> Tensor");
  library.def("elu_plus_one(Tensor x) -> Tensor");
}

TORCH_LIBRARY_IMPL(cogwheel, CPU, library) {
  library.impl("normalized_sums", normalized_cpu);
  library.impl("normalized_sums_backward", normalized_backward_cpu);
  library.impl("elu_plus_one", elu_cpu);
}

TORCH_LIBRARY_IMPL(cogwheel, Meta, library) {
  library.impl("normalized_sums", normalized_meta);
  library.impl("normalized_sums_backward", normalized_backward_meta);
  library.impl("elu_plus_one", elu_meta);
}

TORCH_LIBRARY_IMPL(cogwheel, CompositeExplicitAutograd, library) {
  library.impl("normalized_sums", normalized_by_quotients);
  library.impl("normalized_sums_backward", normalized_back_by_quotients);
  library.impl("elu_plus_one", elu_by_parts);
}

TORCH_LIBRARY_IMPL(cogwheel, Autograd, library) {
  library.impl("normalized_sums", normalized_autograd);
  library.impl("elu_plus_one", elu_autograd);
}

}  // namespace cogwheel::ops
