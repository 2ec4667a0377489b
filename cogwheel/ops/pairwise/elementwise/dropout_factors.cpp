#include "cogwheel/ops/pairwise/elementwise/dropout_factors.h"

#include <ATen/Dispatch.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <vector>

#include "cogwheel/attention/kernels/pairwise/dropout.h"
#include "cogwheel/ops/support/engine_registration.h"
#include "cogwheel/ops/support/executor.h"
#include "cogwheel/ops/support/find_operator.h"
#include "cogwheel/ops/support/philox_tensors.h"

namespace cogwheel::ops {
namespace {

at::Tensor drawn_cpu(const at::Tensor& seed, at::IntArrayRef size, std::int64_t first_query, double dropout,
                     at::ScalarType dtype) {
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
  return factors;
}

// The same in ATen's operators, where the seed is. The words of a panel are [4 words, 16 counters] (dropout.h).
at::Tensor drawn_composed(const at::Tensor& seed, at::IntArrayRef size, std::int64_t first_query, double dropout,
                          at::ScalarType dtype) {
  const std::int64_t batch = size[0], heads = size[1], rows = size[2], keys = size[3];
  const std::int64_t panels = (keys + dropout::panel - 1) / dropout::panel;
  const auto counted = [&](std::int64_t count, at::IntArrayRef shape) {
    return at::arange(count, seed.options()).view(shape);
  };
  at::Tensor queries = counted(rows, {1, 1, rows, 1}) + first_query, in_batch = counted(batch, {batch, 1, 1, 1}),
             head = counted(heads, {1, heads, 1, 1});
  if (seed.numel() == numbers_of_part) {
    const at::Tensor of_entry = seed.select(0, 3);
    queries = queries + seed.select(0, 1);
    head = head + seed.select(0, 2) + in_batch * at::where(of_entry > 0, of_entry, heads);
  } else {
    head = head + in_batch * heads;
  }
  const at::Tensor counters = counted(panels * dropout::counters_per_panel, {1, 1, 1, -1});
  const WordTensors words = philox_of_tensors({counters, word_of(queries), word_of(head), at::zeros_like(counters)},
                                              seed.flatten().select(0, 0));
  std::vector<at::Tensor> panels_of_word;
  for (const at::Tensor& word : words)
    panels_of_word.push_back(
        word.expand({batch, heads, rows, -1}).unflatten(-1, {panels, dropout::counters_per_panel}));
  const at::Tensor word = at::stack(panels_of_word, -2).flatten(3).narrow(-1, 0, keys);
  const auto bound = static_cast<std::int64_t>(dropout::kept_below(dropout));
  return word.lt(bound).to(dtype) * dropout::kept_factor<double>(dropout);
}

at::Tensor drawn_meta(const at::Tensor& seed, at::IntArrayRef size, std::int64_t, double, at::ScalarType dtype) {
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
  static const auto handle = find_operator<decltype(drawn_cpu)>("cogwheel::dropout_factors");
  return handle.call(seed.to(like.device()), size, first_query, dropout, like.scalar_type());
}

TORCH_LIBRARY_FRAGMENT(cogwheel, library) {
  library.def(
      "dropout_factors(Tensor seed, int[] size, int first_query, float dropout, *, ScalarType dtype) -> Tensor");
}

TORCH_LIBRARY_IMPL(cogwheel, CPU, library) { implement_fused(library, "dropout_factors", drawn_cpu); }
TORCH_LIBRARY_IMPL(cogwheel, CompositeExplicitAutograd, library) { library.impl("dropout_factors", drawn_composed); }
TORCH_LIBRARY_IMPL(cogwheel, Meta, library) { library.impl("dropout_factors", drawn_meta); }

}  // namespace cogwheel::ops
