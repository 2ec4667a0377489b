// The outputs of cogwheel::pairwise without data.
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include "cogwheel/ops/pairwise/pairwise.h"
#include "cogwheel/ops/pairwise/pairwise_call.h"
#include "cogwheel/ops/support/checks.h"
#include "cogwheel/ops/support/key_panels.h"

namespace cogwheel::ops {
namespace {

PairwiseOutputs pairwise_meta(const at::Tensor& query, const at::Tensor& given_key, const at::Tensor& value,
                              const at::Tensor&, std::string_view, const PairwiseOptions& options,
                              const WantedOutputs& wanted) {
  const at::Tensor key = are_panels(given_key) ? sizes_of_rows(given_key, value.sym_size(2)) : given_key;
  check_heads_of_values(query, key, value, options.sub_heads);
  return {empty_output(query, key, value, wanted.wide), empty_totals(query), empty_totals(query),
          empty_statistics(query, query.sym_size(1), wanted.statistics)};
}

PairwiseGradients pairwise_backward_meta(const at::Tensor&, const at::Tensor& query, const at::Tensor& key,
                                         const at::Tensor& value, const at::Tensor& parameters, const PairwiseSaved&,
                                         std::string_view, const WantedGradients& wanted,
                                         const PairwiseOptions& options) {
  return {at::empty_like(query), at::empty_like(key), at::empty_like(value), at::empty_like(parameters)
#define PAIRWISE_DIFFERENTIABLE(name, extent) , empty_modifier_gradient(wanted.name, options.name, query)
#include "cogwheel/ops/pairwise/pairwise_options.def"
  };
}

at::Tensor mixture_statistics_meta(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                   const at::Tensor&, const MixtureMembers&, std::string_view,
                                   const PairwiseOptions& options, bool) {
  check_heads_of_values(query, key, value, options.sub_heads);
  return empty_statistics(query, query.sym_size(1) / options.sub_heads, true);
}

}  // namespace

TORCH_LIBRARY_IMPL(cogwheel, Meta, library) {
  library.impl("pairwise", Unbundled<pairwise_meta>::call);
  library.impl("pairwise_backward", Unbundled<pairwise_backward_meta>::call);
  library.impl("mixture_statistics", Unbundled<mixture_statistics_meta>::call);
}

}  // namespace cogwheel::ops
