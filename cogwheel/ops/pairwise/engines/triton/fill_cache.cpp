// cogwheel::fill_kernel_cache: compiles what calls of one mechanism launch, for a device that need not be there.
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <string>

#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/attention/mechanisms/scalar_map.h"
#include "cogwheel/core/error.h"
#include "cogwheel/ops/launch/compile_launches.h"
#include "cogwheel/ops/pairwise/pairwise_engine.h"

namespace cogwheel::ops {

const PairwiseEngine& cuda_pairwise_engine();  // engines.def

namespace {

// Of tensors [B, N, H, D] as layers have them, whose strides are multiples of 16 where the width is.
std::int64_t fill_kernel_cache(c10::string_view mechanism, at::ScalarType dtype, std::int64_t head_dim,
                               c10::string_view target) {
  const PairwiseMechanism* const map = find_mechanism(mechanism).pairwise();
  TORCH_CHECK_VALUE(map != nullptr,
                    expected_got("mechanism", "one that is a function of scores", std::string(mechanism)));
  const Compiles compiles(DeviceTarget::named({target.data(), target.size()}));
  const Instead instead(compiles);
  const std::int64_t sub_heads = map->sub_heads, heads = 2 * sub_heads, rows = 32;
  const auto tensor = [&](std::int64_t of_heads, at::ScalarType type) {
    return at::empty({2, rows, of_heads, head_dim}, type).transpose(1, 2);
  };
  const at::Tensor query = tensor(heads, dtype), key = tensor(heads, dtype), value = tensor(2, dtype),
                   totals = at::empty({2, heads, rows}, at::kFloat),
                   parameters = at::zeros({heads, static_cast<std::int64_t>(map->scalar->parameters)}, at::kDouble);
  // The members of a form are combined in float32.
  const at::Tensor output = tensor(heads, map->is_form() ? at::kFloat : dtype);
  for (const std::string_view seen : {mask::full, mask::causal}) {
    PairwiseOptions options;
    options.mask = seen;
    options.sub_heads = sub_heads;
    options.scale = 0.5;
    const PairwiseCall call{query, key, value, parameters, map->member, options};
    GradientsOfCall gradients{tensor(heads, dtype), tensor(heads, dtype), tensor(2, dtype), at::zeros_like(parameters)};
    cuda_pairwise_engine().forward(call, {}, {output, totals, totals, at::empty({0}, at::kFloat)});
    cuda_pairwise_engine().backward(call, output, {output, totals, totals}, {}, gradients);
  }
  return compiles.compiled();
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(cogwheel, library) {
  library.def("fill_kernel_cache(str mechanism, ScalarType dtype, int head_dim, str target) -> int", fill_kernel_cache);
}

}  // namespace cogwheel::ops
