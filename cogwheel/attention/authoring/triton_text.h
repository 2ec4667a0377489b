// A row map as functions of Triton's language, printed from what its header computes (row_map_trace.h): kernels of GPUs
// are made around them (python/cogwheel/device_kernels).
#pragma once
#include <string>
#include <string_view>

namespace cogwheel::authoring {

// The text of a module of Python. Functions take numbers in any shape and `theta`, a pointer to the map's scalars of
// one head, and return numbers in the shape of the first argument. "(…)" is (argument, shift, visible, theta):
//
//   scalars_of_head(THETA, head)           theta of a head of [heads, scalars]
//   energy(argument, theta)
//   initial_energy(argument, theta)
//   terms(…)                               f, g
//   terms_with_derivatives(…)              f, g, f′, g′
//   parameter_derivatives(…)               f_θ, g_θ for each scalar; not there for a map without
//   normalizer(…)                          N
//   normalizer_with_derivatives(…)         N, N′, and N_θ for each scalar
//
// PARAMETERS is the number of scalars, PADDED_PARAMETERS the power of two above, HAS_ENERGY and HAS_SINK say what else
// a map has. Of a form, those of its member. Empty for a map that is too long to be traced. Throws UsageError where the
// mechanism is no function of scores.
std::string triton_text(std::string_view mechanism);

}  // namespace cogwheel::authoring
