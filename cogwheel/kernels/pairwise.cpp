#include "cogwheel/kernels/pairwise.h"

#include <span>
#include <string>
#include <type_traits>

#include "cogwheel/core/error.h"
#include "cogwheel/kernels/cpu/pair_product.h"
#include "cogwheel/kernels/isa.h"
#include "cogwheel/kernels/pairwise_table.h"  // generated from mechanisms.def

namespace cogwheel {
namespace {

template <class T>
std::span<const PairwiseTableRow<T>> table() {
  if constexpr (std::is_same_v<T, float>)
    return pairwise_float_table();
  else
    return pairwise_double_table();
}

template <class T>
void list_rows(std::string_view dtype, std::string_view how, std::vector<KernelEntry>& entries) {
  const std::string_view chosen = chosen_isa();
  for (const auto& row : table<T>()) {
    bool supported = false;
    for (const InstructionSet& set : instruction_sets()) supported |= set.supported && set.name == row.isa;
    const std::string_view reason =
        row.isa != chosen ? (supported ? "a better one is chosen" : "this machine lacks the instructions") : how;
    entries.push_back({row.mechanism, "cpu", row.isa, dtype, row.isa == chosen, std::string(reason)});
  }
}

}  // namespace

template <class T>
PairwiseKernel<T> pairwise_kernel(std::string_view mechanism) {
  const std::string_view isa = chosen_isa();
  for (const auto& row : table<T>())
    if (row.mechanism == mechanism && row.isa == isa) return *row.kernel;
  throw UsageError("no kernel for mechanism " + std::string(mechanism) + " on cpu, " + std::string(isa) + ", " +
                   (std::is_same_v<T, float> ? "float32" : "float64"));
}

template PairwiseKernel<float> pairwise_kernel<float>(std::string_view);
template PairwiseKernel<double> pairwise_kernel<double>(std::string_view);

std::vector<KernelEntry> available_kernels() {
  std::vector<KernelEntry> entries;
  constexpr std::string_view widens = "chosen; computes in float32, widening as it reads";
  const PairProduct* pairs = chosen_pair_product();
  list_rows<float>("float32", "chosen", entries);
  list_rows<float>(
      "bfloat16",
      pairs ? "chosen; computes in float32, scores by " + std::string(pairs->instructions) : std::string(widens),
      entries);
  list_rows<float>("float16", widens, entries);
  list_rows<double>("float64", "chosen", entries);
  return entries;
}

}  // namespace cogwheel
