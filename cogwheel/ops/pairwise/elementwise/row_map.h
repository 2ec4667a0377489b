// cogwheel::row_map: a row map of the catalogue element by element, with derivatives of up to second order, for
// attention composed of operators (dense_pairwise.h). On the CPU the map itself runs; elsewhere, or where the CPU
// counts as a device without an engine, each of its steps is an operator of ATen there (traced_row_map.h).
#pragma once
#include <ATen/core/Tensor.h>

#include <string_view>

namespace cogwheel::ops {

// function "terms": argument s → f and g; "normalizer": argument G → N; "energy": argument s → its exponent and the
// value at which the row maximum starts, both 0 for maps without an energy. argument [B, Hq, N, M]; shift and visible
// broadcast to it; parameters [Hq, P]. → [C, K, …, B, Hq, N, M] with C channels and K = 1 + P once for each
// order of derivation, along the argument and then the scalars.
//
// Differentiable in argument, parameters and shift, forward and backward, as long as the order stays at most 2: beyond,
// NotImplementedError. Energies have no derivatives. f and g of an energy map scale with exp(−shift); other functions
// do not depend on it.
at::Tensor row_map(const at::Tensor& argument, const at::Tensor& shift, const at::Tensor& visible,
                   const at::Tensor& parameters, std::string_view mechanism, std::string_view function,
                   std::int64_t order = 0);

}  // namespace cogwheel::ops
