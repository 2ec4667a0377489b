#include "cogwheel/ops/pairwise/dropout_factors.h"

#include <ATen/Dispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <torch/library.h>

#include <optional>

#include "cogwheel/attention/kernels/pairwise/dropout.h"
#include "cogwheel/ops/support/executor.h"
#include "cogwheel/ops/support/find_operator.h"

namespace cogwheel::ops {
namespace {

at::Tensor drawn(const at::Tensor& seed, at::IntArrayRef size, std::int64_t first_query, double dropout,
                 at::ScalarType dtype, std::optional<at::Device> device) {
  const at::Tensor factors = at::empty(size, at::TensorOptions(dtype));
  const DropoutSeed from(seed);
  const std::int64_t heads = size[1], rows = size[2], keys = size[3];
  AT_DISPATCH_FLOATING_TYPES(dtype, "cogwheel::dropout_factors", [&] {
    auto* to = factors.mutable_data_ptr<scalar_t>();
    TorchExecutor().run(size[0] * size[1] * rows, [&](std::int64_t index, int) {
      const std::int64_t head = index / rows;
      dropout::factors_of_row(dropout, from.seed, from.part.head(head / heads, head % heads, heads),
                              from.part.query(first_query + index % rows), keys, to + index * keys);
    });
  });
  return factors.to(device.value_or(seed.device()));
}

at::Tensor drawn_meta(const at::Tensor& seed, at::IntArrayRef size, std::int64_t, double, at::ScalarType dtype,
                      std::optional<at::Device>) {
  return at::empty(size, seed.options().dtype(dtype));
}

}  // namespace

DropoutSeed::DropoutSeed(const at::Tensor& numbers) {
  const at::Tensor here = numbers.cpu().contiguous();
  const auto* const number = here.const_data_ptr<std::int64_t>();
  seed = static_cast<std::uint64_t>(number[0]);
  if (here.numel() == numbers_of_part) part = {.first_query = number[1], .first_head = number[2], .heads = number[3]};
}

at::Tensor DropoutSeed::of_part(std::int64_t first_query, std::int64_t text, std::int64_t first_head,
                                std::int64_t heads) const {
  return at::tensor({static_cast<std::int64_t>(seed), part.query(first_query), part.head(text, first_head, heads),
                     part.heads > 0 ? part.heads : heads},
                    at::kLong);
}

at::Tensor dropout_factors(const at::Tensor& seed, at::IntArrayRef size, std::int64_t first_query, double dropout,
                           const at::Tensor& like) {
  static const auto handle = find_operator<decltype(drawn)>("cogwheel::dropout_factors");
  return handle.call(seed, size, first_query, dropout, like.scalar_type(), like.device());
}

TORCH_LIBRARY_FRAGMENT(cogwheel, library) {
  library.def(
      "dropout_factors(Tensor seed, int[] size, int first_query, float dropout, *, ScalarType dtype, Device? "
      "device=None) -> Tensor");
}

TORCH_LIBRARY_IMPL(cogwheel, CompositeExplicitAutograd, library) { library.impl("dropout_factors", drawn); }
TORCH_LIBRARY_IMPL(cogwheel, Meta, library) { library.impl("dropout_factors", drawn_meta); }

}  // namespace cogwheel::ops
