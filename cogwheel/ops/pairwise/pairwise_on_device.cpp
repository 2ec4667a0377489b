// cogwheel::pairwise on a device, by its engine or composed of ATen's operators: what holds for both.
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <string_view>
#include <utility>

#include "cogwheel/ops/pairwise/pairwise.h"
#include "cogwheel/ops/pairwise/pairwise_call.h"
#include "cogwheel/ops/pairwise/pairwise_composed.h"
#include "cogwheel/ops/pairwise/pairwise_engine.h"
#include "cogwheel/ops/support/checks.h"
#include "cogwheel/ops/support/contiguous_width.h"
#include "cogwheel/ops/support/engine.h"
#include "cogwheel/ops/support/key_panels.h"

namespace cogwheel::ops {
namespace {

// Calls ATen's operators as within a device's kernel: autocast would compute some in another type.
class WithoutAutocast {
  c10::impl::ExcludeDispatchKeyGuard guard_{c10::autocast_dispatch_keyset};
};

// The engine for a call, or null if it is composed, which is noted. `lacks(engine)` names what it lacks beside what the
// call shows.
template <class Lacks>
const PairwiseEngine* engine_for(const PairwiseCall& call, const Lacks& lacks) {
  const at::DeviceType device = call.query.device().type();
  const PairwiseEngine* const engine = pairwise_engine(device);
  std::string_view lacked;
  if (engine != nullptr) {
    lacked = lacks(*engine);
    if (lacked.empty()) lacked = lacking(*engine, call);
    if (lacked.empty()) return engine;
  }
  note_composed(device, lacked);
  return nullptr;
}

// As engines take a call.
PairwiseCall with_contiguous_rows(const PairwiseCall& call) {
  return {with_contiguous_width(call.query),
          with_contiguous_width(call.key),
          with_contiguous_width(call.value),
          call.parameters.contiguous(),
          call.mechanism,
          call.options,
          call.key_panels.defined() ? with_contiguous_panels(call.key_panels) : at::Tensor()};
}

// Makes the device of a tensor the current one, as kernels expect.
class CurrentDevice {
 public:
  explicit CurrentDevice(const at::Tensor& of) {
    if (!of.is_cpu()) guard_.reset_device(of.device());
  }

 private:
  c10::OptionalDeviceGuard guard_;
};

}  // namespace

PairwiseOutputs pairwise_on_device(const at::Tensor& query, const at::Tensor& given_key, const at::Tensor& value,
                                   const at::Tensor& parameters, std::string_view mechanism,
                                   const PairwiseOptions& options, const WantedOutputs& wanted) {
  const at::Tensor key = are_panels(given_key) ? sizes_of_rows(given_key, value.size(2)) : given_key;
  check_engine_choice();
  check_heads_of_values(query, key, value, options.sub_heads);
  check_options(query, key, options);
  const WithoutAutocast as_given;
  const PairwiseResults results{empty_output(query, key, value, wanted.wide), empty_totals(query), empty_totals(query),
                                empty_statistics(query, query.size(1), wanted.statistics)};
  if (results.output.numel() > 0) {
    PairwiseCall call{query, key, value, parameters, mechanism, options};
    const PairwiseEngine* const engine = engine_for(
        call, [&](const PairwiseEngine& each) { return wanted.statistics && !each.statistics ? "statistics" : ""; });
    if (are_panels(given_key)) {
      if (engine != nullptr && engine->key_panels && !options.score_weight)
        call.key_panels = given_key;
      else
        call.key = rows_of_panels(given_key, value.size(2));
    }
    if (engine != nullptr) {
      const CurrentDevice of_query(query);
      engine->forward(with_contiguous_rows(call), wanted, results);
    } else {
      compose_pairwise(call, wanted, results);
    }
  }
  return {results.output, results.shift, results.mass, results.statistics};
}

namespace {

PairwiseGradients as_tuple(GradientsOfCall&& gradients) {
  return {
      std::move(gradients.query), std::move(gradients.key), std::move(gradients.value), std::move(gradients.parameters)
#define PAIRWISE_DIFFERENTIABLE(name, extent) , std::move(gradients.name)
#include "cogwheel/ops/pairwise/pairwise_options.def"
  };
}

// Of a call without numbers.
PairwiseGradients zero_gradients(const PairwiseCall& call, const WantedGradients& wanted) {
  GradientsOfCall gradients{at::zeros_like(call.query), at::zeros_like(call.key), at::zeros_like(call.value),
                            at::zeros_like(call.parameters)};
#define PAIRWISE_DIFFERENTIABLE(name, extent) \
  gradients.name = empty_modifier_gradient(wanted.name, call.options.name, call.query).zero_();
#include "cogwheel/ops/pairwise/pairwise_options.def"
  return as_tuple(std::move(gradients));
}

PairwiseGradients pairwise_backward_on_device(const at::Tensor& gradient, const at::Tensor& query,
                                              const at::Tensor& key, const at::Tensor& value,
                                              const at::Tensor& parameters, const PairwiseSaved& saved,
                                              std::string_view mechanism, const WantedGradients& wanted,
                                              const PairwiseOptions& options) {
  check_heads_of_values(query, key, value, options.sub_heads);
  check_options(query, key, options);
  check_saved(gradient, query, saved);
  const WithoutAutocast as_given;
  const PairwiseCall call{query, key, value, parameters, mechanism, options};
  if (gradient.numel() == 0 || key.numel() == 0) return zero_gradients(call, wanted);
  const PairwiseEngine* const engine =
      engine_for(call, [](const PairwiseEngine& each) { return each.backward == nullptr ? "gradients" : ""; });
  if (engine == nullptr) return compose_pairwise_backward(call, gradient, saved.shift, wanted);

  const CurrentDevice of_query(query);
  const PairwiseCall rows = with_contiguous_rows(call);
  // A broadcast input has gradients of its full size.
  const auto memory_like = [](const at::Tensor& input) { return with_contiguous_width(at::empty_like(input)); };
  GradientsOfCall gradients{memory_like(rows.query), memory_like(rows.key), memory_like(rows.value),
                            at::zeros_like(rows.parameters)};
  engine->backward(rows, with_contiguous_width(gradient),
                   {with_contiguous_width(saved.output), saved.shift.contiguous(), saved.mass.contiguous()}, wanted,
                   gradients);
#define PAIRWISE_DIFFERENTIABLE(name, extent) \
  if (!wanted.name) gradients.name = empty_modifier_gradient(false, options.name, query);
#include "cogwheel/ops/pairwise/pairwise_options.def"
  return as_tuple(std::move(gradients));
}

at::Tensor mixture_statistics_on_device(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                        const at::Tensor& parameters, const MixtureMembers& members,
                                        std::string_view mechanism, const PairwiseOptions& options, bool argmax) {
  check_heads_of_values(query, key, value, options.sub_heads);
  check_options(query, key, options);
  check_members(members, query, options.sub_heads);
  const WithoutAutocast as_given;
  const std::int64_t heads = query.size(1) / options.sub_heads;
  const at::Tensor statistics = empty_statistics(query, heads, true);
  if (statistics.numel() == 0) return statistics;
  const PairwiseCall call{query, key, value, parameters, mechanism, options};
  const PairwiseEngine* const engine = engine_for(call, [](const PairwiseEngine& each) {
    return each.mixture_statistics == nullptr ? "statistics of mixtures" : "";
  });
  if (engine == nullptr) {
    compose_mixture_statistics(call, members, statistics);
    return statistics;
  }
  MixtureMembers rows{members.shift.contiguous(), members.mass.contiguous(), {}};
  if (members.coefficient)
    rows.coefficient = members.coefficient->expand({query.size(0), heads, query.size(2)}).contiguous();
  const CurrentDevice of_query(query);
  engine->mixture_statistics(with_contiguous_rows(call), rows, argmax, statistics);
  return statistics;
}

}  // namespace

// Of every device: which one computes what is for engines.def to say, and not for the keys of the dispatcher.
TORCH_LIBRARY_IMPL(cogwheel, CompositeExplicitAutograd, library) {
  library.impl("pairwise", Unbundled<pairwise_on_device>::call);
  library.impl("pairwise_backward", Unbundled<pairwise_backward_on_device>::call);
  library.impl("mixture_statistics", Unbundled<mixture_statistics_on_device>::call);
}

}  // namespace cogwheel::ops
