#include "cogwheel/ops/recurrent/token_rows.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "cogwheel/ops/recurrent/recurrent_checks.h"
#include "cogwheel/ops/support/contiguous_width.h"
#include "cogwheel/ops/support/find_operator.h"
#include "cogwheel/ops/support/recorded_node.h"

namespace cogwheel::ops {
namespace {

constexpr std::int64_t token_rows_per_task = 64;

// run(row, batch, head, token) for every row of [B, H, N, …], row by row in that order.
template <class Run>
void for_token_rows(const at::Tensor& rows, const Run& run) {
  const std::int64_t heads = rows.size(1), tokens = rows.size(2);
  at::parallel_for(0, rows.size(0) * heads * tokens, token_rows_per_task, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) run(row, row / tokens / heads, row / tokens % heads, row % tokens);
  });
}

// The rows of a tensor of any strides whose width is contiguous.
template <class T>
struct RowsOf {
  const T* data;
  std::int64_t batch_stride, head_stride, token_stride;

  explicit RowsOf(const at::Tensor& tensor)
      : data(tensor.const_data_ptr<T>()),
        batch_stride(tensor.stride(0)),
        head_stride(tensor.stride(1)),
        token_stride(tensor.stride(2)) {}
  const T* at(std::int64_t batch, std::int64_t head, std::int64_t token) const {
    return data + batch * batch_stride + head * head_stride + token * token_stride;
  }
};

at::Tensor weighted_on_meta(const at::Tensor& rows, const at::Tensor&) {
  return at::empty_symint(rows.sym_sizes(), rows.options());
}

at::Tensor weighted_on_cpu(const at::Tensor& rows_, const at::Tensor& weights) {
  const at::Tensor rows = with_contiguous_width(rows_), made = weighted_on_meta(rows, weights);
  const std::int64_t width = rows.size(3);
  AT_DISPATCH_FLOATING_TYPES(rows.scalar_type(), "cogwheel::weighted_rows", [&] {
    const RowsOf<scalar_t> from(rows), factors(weights);
    scalar_t* const to = made.mutable_data_ptr<scalar_t>();
    for_token_rows(rows, [&](std::int64_t row, std::int64_t batch, std::int64_t head, std::int64_t token) {
      const scalar_t *x = from.at(batch, head, token), factor = *factors.at(batch, head, token);
      scalar_t* const y = to + row * width;
      for (std::int64_t i = 0; i < width; ++i) y[i] = factor * x[i];
    });
  });
  return made;
}

using WeightedGradients = std::tuple<at::Tensor, at::Tensor>;

WeightedGradients weighted_back_on_meta(const at::Tensor&, const at::Tensor& rows, const at::Tensor& weights) {
  return {at::empty_symint(rows.sym_sizes(), rows.options()), at::empty_symint(weights.sym_sizes(), rows.options())};
}

WeightedGradients weighted_back_on_cpu(const at::Tensor& gradient_, const at::Tensor& rows_,
                                       const at::Tensor& weights) {
  const at::Tensor gradient = with_contiguous_width(gradient_), rows = with_contiguous_width(rows_);
  const WeightedGradients made = weighted_back_on_meta(gradient, rows, weights);
  const std::int64_t width = rows.size(3);
  AT_DISPATCH_FLOATING_TYPES(rows.scalar_type(), "cogwheel::weighted_rows_backward", [&] {
    const RowsOf<scalar_t> from(rows), gradients(gradient), factors(weights);
    scalar_t *const of_rows = std::get<0>(made).mutable_data_ptr<scalar_t>(), *const of_weights =
                                                                                  std::get<1>(made)
                                                                                      .mutable_data_ptr<scalar_t>();
    for_token_rows(rows, [&](std::int64_t row, std::int64_t batch, std::int64_t head, std::int64_t token) {
      const scalar_t *x = from.at(batch, head, token), *g = gradients.at(batch, head, token);
      const scalar_t factor = *factors.at(batch, head, token);
      scalar_t* const y = of_rows + row * width;
      // Eight sums beside each other, which the compiler holds in vectors.
      scalar_t sums[8] = {}, rest = 0;
      std::int64_t i = 0;
      for (; i + 8 <= width; i += 8)
        for (int k = 0; k < 8; ++k) {
          y[i + k] = factor * g[i + k];
          sums[k] += x[i + k] * g[i + k];
        }
      for (; i < width; ++i) {
        y[i] = factor * g[i];
        rest += x[i] * g[i];
      }
      for (const scalar_t sum : sums) rest += sum;
      of_weights[row] = rest;
    });
  });
  return made;
}

// On devices that have no loops of ours; in the memory that shapes without data promise.
at::Tensor weighted_by_products(const at::Tensor& rows, const at::Tensor& weights) {
  return (rows * weights.unsqueeze(-1)).contiguous();
}
WeightedGradients weighted_back_by_products(const at::Tensor& gradient, const at::Tensor& rows,
                                            const at::Tensor& weights) {
  return {(gradient * weights.unsqueeze(-1)).contiguous(), (gradient * rows).sum(-1).contiguous()};
}
at::Tensor turned_by_products(const at::Tensor& rows, const at::Tensor& cosines, const at::Tensor& sines, bool relu) {
  const at::Tensor mapped = relu ? rows.relu() : rows;
  return at::cat({mapped * cosines.unsqueeze(-1), mapped * sines.unsqueeze(-1)}, -1);
}
at::Tensor turned_back_by_products(const at::Tensor& gradient, const at::Tensor& rows, const at::Tensor& cosines,
                                   const at::Tensor& sines, bool relu) {
  const std::vector<at::Tensor> halves = gradient.chunk(2, -1);
  const at::Tensor sum = halves[0] * cosines.unsqueeze(-1) + halves[1] * sines.unsqueeze(-1);
  return (relu ? sum.masked_fill(rows.le(0), 0) : sum).contiguous();
}

WeightedGradients weighted_back(const at::Tensor& gradient, const at::Tensor& rows, const at::Tensor& weights) {
  static const auto handle = find_operator<decltype(weighted_back)>("cogwheel::weighted_rows_backward");
  return handle.call(gradient, rows, weights);
}

at::Tensor weighted_in_autograd(const at::Tensor& rows, const at::Tensor& weights) {
  if (has_tangent({rows, weights})) refuse_recurrent_derivative("a tangent");
  at::Tensor made;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    made = weighted_rows(rows, weights);
  }
  if (needs_record({rows, weights}))
    record_saving(
        "WeightedRowsBackward", {rows, weights}, {made}, {.inputs = {rows, weights}, .outputs = {}, .constants = {}},
        [](const variable_list& given, const variable_list&, const variable_list& gradients) {
          const bool again = needs_record({gradients[0], given[0], given[1]});
          const auto [of_rows, of_weights] = again ? weighted_back_by_products(gradients[0], given[0], given[1])
                                                   : weighted_back(gradients[0], given[0], given[1]);
          return variable_list{of_rows, of_weights};
        });
  return made;
}

at::Tensor turned_on_meta(const at::Tensor& rows, const at::Tensor&, const at::Tensor&, bool) {
  return at::empty_symint({rows.sym_size(0), rows.sym_size(1), rows.sym_size(2), rows.sym_size(3) * 2}, rows.options());
}

at::Tensor turned_on_cpu(const at::Tensor& rows_, const at::Tensor& cosines_, const at::Tensor& sines_, bool relu) {
  const at::Tensor rows = with_contiguous_width(rows_), cosines = cosines_.contiguous(), sines = sines_.contiguous();
  const at::Tensor made = turned_on_meta(rows, cosines, sines, relu);
  const std::int64_t width = rows.size(3);
  AT_DISPATCH_FLOATING_TYPES(rows.scalar_type(), "cogwheel::turned_rows", [&] {
    const RowsOf<scalar_t> from(rows);
    const scalar_t *cosine = cosines.const_data_ptr<scalar_t>(), *sine = sines.const_data_ptr<scalar_t>();
    scalar_t* const to = made.mutable_data_ptr<scalar_t>();
    for_token_rows(rows, [&](std::int64_t row, std::int64_t batch, std::int64_t head, std::int64_t token) {
      const scalar_t* const x = from.at(batch, head, token);
      scalar_t *const even = to + row * 2 * width, *const odd = even + width;
      for (std::int64_t i = 0; i < width; ++i) {
        const scalar_t mapped = relu && x[i] <= scalar_t(0) ? scalar_t(0) : x[i];  // a NaN stays
        even[i] = cosine[token] * mapped;
        odd[i] = sine[token] * mapped;
      }
    });
  });
  return made;
}

at::Tensor turned_back_on_meta(const at::Tensor&, const at::Tensor& rows, const at::Tensor&, const at::Tensor&, bool) {
  return at::empty_symint(rows.sym_sizes(), rows.options());
}

at::Tensor turned_back_on_cpu(const at::Tensor& gradient_, const at::Tensor& rows_, const at::Tensor& cosines_,
                              const at::Tensor& sines_, bool relu) {
  const at::Tensor gradient = with_contiguous_width(gradient_), rows = with_contiguous_width(rows_),
                   cosines = cosines_.contiguous(), sines = sines_.contiguous();
  const at::Tensor made = turned_back_on_meta(gradient, rows, cosines, sines, relu);
  const std::int64_t width = rows.size(3);
  AT_DISPATCH_FLOATING_TYPES(rows.scalar_type(), "cogwheel::turned_rows_backward", [&] {
    const RowsOf<scalar_t> from(rows), gradients(gradient);
    const scalar_t *cosine = cosines.const_data_ptr<scalar_t>(), *sine = sines.const_data_ptr<scalar_t>();
    scalar_t* const to = made.mutable_data_ptr<scalar_t>();
    for_token_rows(rows, [&](std::int64_t row, std::int64_t batch, std::int64_t head, std::int64_t token) {
      const scalar_t *const x = from.at(batch, head, token), *const even = gradients.at(batch, head, token),
                            *const odd = even + width;
      scalar_t* const y = to + row * width;
      for (std::int64_t i = 0; i < width; ++i) {
        const scalar_t sum = cosine[token] * even[i] + sine[token] * odd[i];
        y[i] = relu && x[i] <= scalar_t(0) ? scalar_t(0) : sum;
      }
    });
  });
  return made;
}

at::Tensor turned_back(const at::Tensor& gradient, const at::Tensor& rows, const at::Tensor& cosines,
                       const at::Tensor& sines, bool relu) {
  static const auto handle = find_operator<decltype(turned_back)>("cogwheel::turned_rows_backward");
  return handle.call(gradient, rows, cosines, sines, relu);
}

at::Tensor turned_in_autograd(const at::Tensor& rows, const at::Tensor& cosines, const at::Tensor& sines, bool relu) {
  if (has_tangent({rows, cosines, sines})) refuse_recurrent_derivative("a tangent");
  // Angles are numbers of the law, and seldom learned.
  if (needs_record({cosines, sines})) return turned_by_products(rows, cosines, sines, relu);
  at::Tensor made;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    made = turned_rows(rows, cosines, sines, relu);
  }
  if (needs_record({rows}))
    record_saving("TurnedRowsBackward", {rows}, {made},
                  {.inputs = {rows}, .outputs = {}, .constants = {cosines, sines}},
                  [relu](const variable_list& given, const variable_list& angles, const variable_list& gradients) {
                    if (needs_record({gradients[0]}))
                      return variable_list{turned_back_by_products(gradients[0], given[0], angles[0], angles[1], relu)};
                    return variable_list{turned_back(gradients[0], given[0], angles[0], angles[1], relu)};
                  });
  return made;
}

at::Tensor projected_on_meta(const at::Tensor& rows, const at::Tensor& projection) {
  return at::empty_symint({rows.sym_size(0), rows.sym_size(1), rows.sym_size(2), projection.sym_size(2)},
                          rows.options());
}

at::Tensor projected_on_cpu(const at::Tensor& rows_, const at::Tensor& projection_) {
  const at::Tensor rows = with_contiguous_width(rows_), projection = projection_.contiguous();
  const at::Tensor made = projected_on_meta(rows, projection);
  const std::int64_t width = rows.size(3), columns = projection.size(2);
  AT_DISPATCH_FLOATING_TYPES(rows.scalar_type(), "cogwheel::projected_rows", [&] {
    const RowsOf<scalar_t> from(rows);
    const scalar_t* const factors = projection.const_data_ptr<scalar_t>();
    scalar_t* const to = made.mutable_data_ptr<scalar_t>();
    for_token_rows(rows, [&](std::int64_t row, std::int64_t batch, std::int64_t head, std::int64_t token) {
      const scalar_t *x = from.at(batch, head, token), *factor = factors + head * width * columns;
      scalar_t* const y = to + row * columns;
      std::fill_n(y, columns, scalar_t(0));
      for (std::int64_t i = 0; i < width; ++i, factor += columns)
        for (std::int64_t j = 0; j < columns; ++j) y[j] += x[i] * factor[j];
    });
  });
  return made;
}

at::Tensor projected_by_product(const at::Tensor& rows, const at::Tensor& projection) {
  return rows.matmul(projection);
}

at::Tensor projected_in_autograd(const at::Tensor& rows, const at::Tensor& projection) {
  return differentiated_by(
      "ProjectedRowsBackward", {rows, projection}, [&] { return variable_list{projected_rows(rows, projection)}; },
      [](const variable_list& given) { return variable_list{projected_by_product(given[0], given[1])}; })[0];
}

}  // namespace

at::Tensor projected_rows(const at::Tensor& rows, const at::Tensor& projection) {
  static const auto handle = find_operator<decltype(projected_rows)>("cogwheel::projected_rows");
  return handle.call(rows, projection);
}

at::Tensor weighted_rows(const at::Tensor& rows, const at::Tensor& weights) {
  static const auto handle = find_operator<decltype(weighted_rows)>("cogwheel::weighted_rows");
  return handle.call(rows, weights);
}

at::Tensor turned_rows(const at::Tensor& rows, const at::Tensor& cosines, const at::Tensor& sines, bool relu) {
  static const auto handle = find_operator<decltype(turned_rows)>("cogwheel::turned_rows");
  return handle.call(rows, cosines, sines, relu);
}

TORCH_LIBRARY_FRAGMENT(cogwheel, library) {
  library.def("projected_rows(Tensor rows, Tensor projection) -> Tensor");
  library.def("weighted_rows(Tensor rows, Tensor weights) -> Tensor");
  library.def("weighted_rows_backward(Tensor gradient, Tensor rows, Tensor weights) -> (Tensor, Tensor)");
  library.def("turned_rows(Tensor rows, Tensor cosines, Tensor sines, bool relu) -> Tensor");
  library.def("turned_rows_backward(Tensor gradient, Tensor rows, Tensor cosines, Tensor sines, bool relu) -> Tensor");
}
TORCH_LIBRARY_IMPL(cogwheel, CPU, library) {
  library.impl("projected_rows", projected_on_cpu);
  library.impl("weighted_rows", weighted_on_cpu);
  library.impl("weighted_rows_backward", weighted_back_on_cpu);
  library.impl("turned_rows", turned_on_cpu);
  library.impl("turned_rows_backward", turned_back_on_cpu);
}
TORCH_LIBRARY_IMPL(cogwheel, Meta, library) {
  library.impl("projected_rows", projected_on_meta);
  library.impl("weighted_rows", weighted_on_meta);
  library.impl("weighted_rows_backward", weighted_back_on_meta);
  library.impl("turned_rows", turned_on_meta);
  library.impl("turned_rows_backward", turned_back_on_meta);
}
TORCH_LIBRARY_IMPL(cogwheel, CompositeExplicitAutograd, library) {
  library.impl("projected_rows", projected_by_product);
  library.impl("weighted_rows", weighted_by_products);
  library.impl("weighted_rows_backward", weighted_back_by_products);
  library.impl("turned_rows", turned_by_products);
  library.impl("turned_rows_backward", turned_back_by_products);
}
TORCH_LIBRARY_IMPL(cogwheel, Autograd, library) {
  library.impl("projected_rows", projected_in_autograd);
  library.impl("weighted_rows", weighted_in_autograd);
  library.impl("turned_rows", turned_in_autograd);
}

}  // namespace cogwheel::ops
