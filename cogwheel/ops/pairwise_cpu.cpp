// cogwheel::pairwise on the CPU, and what its outputs look like without data (meta).
#include <ATen/Dispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <string>

#include "cogwheel/kernels/pairwise.h"
#include "cogwheel/ops/checks.h"
#include "cogwheel/ops/contiguous_width.h"
#include "cogwheel/ops/executor.h"
#include "cogwheel/ops/pairwise.h"

namespace cogwheel {
namespace {

template <class T, class Tensor>
HeadsView<T> view(const Tensor& tensor) {
  return {static_cast<T*>(const_cast<void*>(tensor.const_data_ptr())), tensor.stride(0), tensor.stride(1),
          tensor.stride(2)};
}

// The output takes the order of the query's dimensions: where a query is a transposed view of [B, N, H, D], the layer's
// transpose back to [B, N, H·D] is free.
at::Tensor empty_output(const at::Tensor& query, const at::Tensor& value) {
  const auto sizes = query.sym_sizes();
  const c10::SymInt width = value.sym_size(3);
  if (query.sym_stride(1) < query.sym_stride(2))
    return at::empty_symint({sizes[0], sizes[2], sizes[1], width}, query.options()).transpose(1, 2);
  return at::empty_symint({sizes[0], sizes[1], sizes[2], width}, query.options());
}

at::Tensor empty_totals(const at::Tensor& query) {
  return at::empty_symint({query.sym_size(0), query.sym_size(1), query.sym_size(2)}, query.options());
}

PairwiseShape shape_of(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                       std::int64_t sub_heads) {
  return {.batch = query.size(0),
          .query_heads = query.size(1),
          .value_heads = value.size(1),
          .sub_heads = sub_heads,
          .queries = query.size(2),
          .keys = key.size(2),
          .head_dim = query.size(3),
          .value_dim = value.size(3)};
}

template <class T, class Problem>
void describe(Problem& problem, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, double scale,
              std::string_view mask, std::int64_t sub_heads) {
  problem.shape = shape_of(query, key, value, sub_heads);
  problem.visibility = visibility_of(mask, problem.shape.queries, problem.shape.keys);
  problem.scale = static_cast<T>(scale);
  problem.query = view<const T>(query);
  problem.key = view<const T>(key);
  problem.value = view<const T>(value);
}

PairwiseOutputs forward_cpu(const at::Tensor& query_, const at::Tensor& key_, const at::Tensor& value_,
                            c10::string_view mechanism, double scale, c10::string_view mask, std::int64_t sub_heads) {
  check_attention(query_, key_, value_, sub_heads);
  const at::Tensor query = with_contiguous_width(query_), key = with_contiguous_width(key_),
                   value = with_contiguous_width(value_);
  at::Tensor output = empty_output(query_, value_), shift = empty_totals(query_), mass = empty_totals(query_);
  if (output.numel() == 0) return {output, shift, mass};
  AT_DISPATCH_FLOATING_TYPES(query.scalar_type(), "cogwheel::pairwise", [&] {
    PairwiseForward<scalar_t> problem;
    describe<scalar_t>(problem, query, key, value, scale, mask, sub_heads);
    problem.output = view<scalar_t>(output);
    problem.shift = shift.mutable_data_ptr<scalar_t>();
    problem.mass = mass.mutable_data_ptr<scalar_t>();
    pairwise_kernel<scalar_t>(mechanism).forward(problem, TorchExecutor());
  });
  return {output, shift, mass};
}

PairwiseOutputs forward_meta(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, c10::string_view,
                             double, c10::string_view, std::int64_t sub_heads) {
  check_attention(query, key, value, sub_heads);
  return {empty_output(query, value), empty_totals(query), empty_totals(query)};
}

PairwiseOutputs backward_cpu(const at::Tensor& gradient_, const at::Tensor& query_, const at::Tensor& key_,
                             const at::Tensor& value_, const at::Tensor& output_, const at::Tensor& shift,
                             const at::Tensor& mass, c10::string_view mechanism, double scale, c10::string_view mask,
                             std::int64_t sub_heads) {
  check_attention(query_, key_, value_, sub_heads);
  const at::Tensor gradient = with_contiguous_width(gradient_), query = with_contiguous_width(query_),
                   key = with_contiguous_width(key_), value = with_contiguous_width(value_),
                   output = with_contiguous_width(output_), row_shift = shift.contiguous(),
                   row_mass = mass.contiguous();
  at::Tensor query_gradient = at::empty_like(query), key_gradient = at::empty_like(key),
             value_gradient = at::empty_like(value);
  // A broadcast input has gradients of its full size.
  for (at::Tensor* each : {&query_gradient, &key_gradient, &value_gradient}) *each = with_contiguous_width(*each);
  if (output.numel() == 0 || key.numel() == 0)
    return {at::zeros_like(query_gradient), at::zeros_like(key_gradient), at::zeros_like(value_gradient)};
  AT_DISPATCH_FLOATING_TYPES(query.scalar_type(), "cogwheel::pairwise_backward", [&] {
    PairwiseBackward<scalar_t> problem;
    describe<scalar_t>(problem, query, key, value, scale, mask, sub_heads);
    problem.output = view<const scalar_t>(output);
    problem.output_gradient = view<const scalar_t>(gradient);
    problem.shift = row_shift.const_data_ptr<scalar_t>();
    problem.mass = row_mass.const_data_ptr<scalar_t>();
    problem.query_gradient = view<scalar_t>(query_gradient);
    problem.key_gradient = view<scalar_t>(key_gradient);
    problem.value_gradient = view<scalar_t>(value_gradient);
    pairwise_kernel<scalar_t>(mechanism).backward(problem, TorchExecutor());
  });
  return {query_gradient, key_gradient, value_gradient};
}

PairwiseOutputs backward_meta(const at::Tensor&, const at::Tensor& query, const at::Tensor& key,
                              const at::Tensor& value, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                              c10::string_view, double, c10::string_view, std::int64_t) {
  return {at::empty_like(query), at::empty_like(key), at::empty_like(value)};
}

}  // namespace

Visibility visibility_of(std::string_view name, std::int64_t queries, std::int64_t keys) {
  if (name == mask::full) return {.keys = keys};
  if (name == mask::causal) return {.keys = keys, .causal = true, .diagonal = keys - queries};
  if (name == mask::causal_first) return {.keys = keys, .causal = true, .diagonal = 0};
  refuse("mask", "full, causal or causal_first", std::string(name));
}

TORCH_LIBRARY_IMPL(cogwheel, CPU, library) {
  library.impl("pairwise", forward_cpu);
  library.impl("pairwise_backward", backward_cpu);
}

TORCH_LIBRARY_IMPL(cogwheel, Meta, library) {
  library.impl("pairwise", forward_meta);
  library.impl("pairwise_backward", backward_meta);
}

}  // namespace cogwheel
