// cogwheel::row_map: a row map of the catalogue element by element, with derivatives of up to second order. What
// attention is composed of (dense_pairwise.h). It is computed on the host: tensors of another device are copied there,
// and the result back.
#pragma once
#include <ATen/core/Tensor.h>

#include <string_view>

namespace cogwheel {

// function "terms": argument s → f and g; "normalizer": argument G → N; "energy": argument s → its energy and where the
// running maximum of energies starts, both 0 for maps without one. argument [B, Hq, N, M]; shift and visible
// broadcast to it; parameters [Hq, P]. → [C, K, …, B, Hq, N, M] with C channels and K = 1 + P once for each
// order of derivation, along the argument and then the scalars.
//
// Differentiable in argument, parameters and shift, forward and backward, as long as the order stays at most 2: beyond,
// NotImplementedError. Energies have no derivatives. f and g of an energy map fall like exp(−shift); other functions do
// not move with it.
at::Tensor row_map(const at::Tensor& argument, const at::Tensor& shift, const at::Tensor& visible,
                   const at::Tensor& parameters, std::string_view mechanism, std::string_view function,
                   std::int64_t order = 0);

}  // namespace cogwheel
