#include "cogwheel/ops/running_maximum.h"

#include <ATen/Dispatch.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <algorithm>

#include "cogwheel/kernels/recurrent/recurrent.h"
#include "cogwheel/ops/bundle.h"
#include "cogwheel/ops/engine_registration.h"
#include "cogwheel/ops/find_operator.h"
#include "cogwheel/ops/recurrent_checks.h"

namespace cogwheel {
namespace {

at::Tensor on_cpu(const at::Tensor& log_decay_, const at::Tensor& input_, const OptionalTensor& initial_,
                  const OptionalTensor& cu_seqlens_) {
  const at::Tensor log_decay = log_decay_.contiguous(), input = input_.contiguous();
  const at::Tensor initial = initial_ ? initial_->contiguous() : at::Tensor();
  const at::Tensor cu_seqlens = cu_seqlens_ ? cu_seqlens_->contiguous() : at::Tensor();
  const std::int64_t heads = input.size(1), tokens = input.size(2);
  if (cu_seqlens_) check_sequence_bounds(cu_seqlens, tokens);
  const at::Tensor maximum = at::empty_like(input, at::MemoryFormat::Contiguous);
  const RecurrentShape shape{.sequences = cu_seqlens_ ? cu_seqlens.size(0) - 1 : input.size(0),
                             .heads = heads,
                             .tokens = tokens,
                             .key_width = 1,
                             .value_width = 1,
                             .first_tokens = cu_seqlens_ ? cu_seqlens.const_data_ptr<std::int64_t>() : nullptr};
  AT_DISPATCH_FLOATING_TYPES(input.scalar_type(), "cogwheel::running_maximum", [&] {
    const scalar_t *decays = log_decay.const_data_ptr<scalar_t>(), *inputs = input.const_data_ptr<scalar_t>();
    const scalar_t* first = initial_ ? initial.const_data_ptr<scalar_t>() : nullptr;
    scalar_t* to = maximum.mutable_data_ptr<scalar_t>();
    for (std::int64_t sequence = 0; sequence < shape.sequences; ++sequence)
      for (std::int64_t head = 0; head < heads; ++head) {
        const TokenSpan span = shape.span(sequence);
        const std::int64_t begin = (span.batch * heads + head) * tokens + span.begin;
        scalar_t m = first ? first[sequence * heads + head] : scalar_t(0);
        for (std::int64_t i = begin; i < begin + span.count; ++i)
          to[i] = m = std::max({decays[i] + m, inputs[i], scalar_t(0)});
      }
  });
  return maximum;
}

at::Tensor on_meta(const at::Tensor&, const at::Tensor& input, const OptionalTensor&, const OptionalTensor&) {
  return at::empty_symint(input.sym_sizes(), input.options());
}

at::Tensor without_gradient(const at::Tensor& log_decay, const at::Tensor& input, const OptionalTensor& initial,
                            const OptionalTensor& cu_seqlens) {
  const at::AutoDispatchBelowADInplaceOrView below;
  return running_maximum(log_decay, input, initial, cu_seqlens);
}

}  // namespace

at::Tensor running_maximum(const at::Tensor& log_decay, const at::Tensor& input, const OptionalTensor& initial,
                           const OptionalTensor& cu_seqlens) {
  static const auto handle = find_operator<decltype(running_maximum)>("cogwheel::running_maximum");
  return handle.call(log_decay, input, initial, cu_seqlens);
}

TORCH_LIBRARY_FRAGMENT(cogwheel, library) {
  library.def("running_maximum(Tensor log_decay, Tensor input, Tensor? initial, Tensor? cu_seqlens) -> Tensor");
}
TORCH_LIBRARY_IMPL(cogwheel, CPU, library) { library.impl("running_maximum", on_cpu); }
TORCH_LIBRARY_IMPL(cogwheel, Meta, library) { library.impl("running_maximum", on_meta); }
TORCH_LIBRARY_IMPL(cogwheel, CompositeExplicitAutograd, library) { implement_on_host(library, "running_maximum"); }
TORCH_LIBRARY_IMPL(cogwheel, Autograd, library) { library.impl("running_maximum", without_gradient); }

}  // namespace cogwheel
