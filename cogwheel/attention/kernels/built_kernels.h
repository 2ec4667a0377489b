// Which instruction sets a family's kernels were built for: tables of generated files, and the look-up in them.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>

#include "cogwheel/core/error.h"

namespace cogwheel {

template <template <class> class Kernel>
struct BuiltKernel {
  std::string_view isa;
  const Kernel<float>* of_float;
  const Kernel<double>* of_double;
};

// Throws UsageError that names `what` where none was built for the instruction set.
template <class T, template <class> class Kernel, std::size_t count>
Kernel<T> kernel_for(std::string_view isa, const BuiltKernel<Kernel> (&built)[count], const char* what) {
  for (const BuiltKernel<Kernel>& each : built)
    if (each.isa == isa) {
      if constexpr (std::is_same_v<T, float>)
        return *each.of_float;
      else
        return *each.of_double;
    }
  throw UsageError("no kernel for " + std::string(what) + " on cpu, " + std::string(isa));
}

}  // namespace cogwheel
