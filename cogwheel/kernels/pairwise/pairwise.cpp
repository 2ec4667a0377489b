#include "cogwheel/kernels/pairwise/pairwise.h"

#include <deque>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <string>
#include <type_traits>

#include "cogwheel/core/error.h"
#include "cogwheel/kernels/cpu/pair_product.h"
#include "cogwheel/kernels/isa.h"
#include "cogwheel/kernels/pairwise/added_kernels.h"
#include "cogwheel/kernels/pairwise/pairwise_table.h"  // generated from mechanisms.def

namespace cogwheel {
namespace {

template <class T>
std::span<const PairwiseTableRow<T>> table() {
  if constexpr (std::is_same_v<T, float>)
    return pairwise_float_table();
  else
    return pairwise_double_table();
}

// Kernels that were compiled while the program runs. Elements of a deque never move.
struct AddedKernels {
  struct Entry {
    std::string mechanism, isa;
    PairwiseKernel<float> of_float;
    PairwiseKernel<double> of_double;
  };
  std::shared_mutex access;
  std::deque<Entry> entries;

  const Entry* find(std::string_view mechanism, std::string_view isa) const {
    for (const Entry& entry : entries)
      if (entry.mechanism == mechanism && entry.isa == isa) return &entry;
    return nullptr;
  }
};

AddedKernels& added_kernels() {
  static AddedKernels kernels;
  return kernels;
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
  const std::shared_lock lock(added_kernels().access);
  for (const auto& entry : added_kernels().entries)
    entries.push_back({entry.mechanism, "cpu", entry.isa, dtype, entry.isa == chosen,
                       std::string(entry.isa == chosen ? how : "compiled for another choice of instructions")});
}

}  // namespace

template <class T>
PairwiseKernel<T> pairwise_kernel(std::string_view mechanism) {
  const std::string_view isa = chosen_isa();
  for (const auto& row : table<T>())
    if (row.mechanism == mechanism && row.isa == isa) return *row.kernel;
  {
    const std::shared_lock lock(added_kernels().access);
    if (const auto* added = added_kernels().find(mechanism, isa)) {
      if constexpr (std::is_same_v<T, float>)
        return added->of_float;
      else
        return added->of_double;
    }
  }
  std::string message = "no kernel for mechanism " + std::string(mechanism) + " on cpu, " + std::string(isa) + ", " +
                        (std::is_same_v<T, float> ? "float32" : "float64");
  for (const InstructionSet& set : instruction_sets())
    if (set.name == isa && !set.complete)
      message += ": this build has all of its kernels for another machine; COGWHEEL_ALL_ISAS builds them for every one";
  throw UsageError(message);
}

template PairwiseKernel<float> pairwise_kernel<float>(std::string_view);
template PairwiseKernel<double> pairwise_kernel<double>(std::string_view);

void add_pairwise_kernels(std::string_view mechanism, std::string_view isa, const PairwiseKernel<float>& of_float,
                          const PairwiseKernel<double>& of_double) {
  const std::unique_lock lock(added_kernels().access);
  if (added_kernels().find(mechanism, isa) == nullptr)
    added_kernels().entries.push_back({std::string(mechanism), std::string(isa), of_float, of_double});
}

std::vector<KernelEntry> available_kernels() {
  std::vector<KernelEntry> entries;
  constexpr std::string_view widens = "chosen; computes in float32, widening as it reads";
  const PairProduct* pairs = chosen_pair_product();
  list_rows<float>("float32", "chosen", entries);
  list_rows<float>("bfloat16",
                   pairs ? "chosen; computes in float32, scores and weights by " + std::string(pairs->instructions)
                         : std::string(widens),
                   entries);
  list_rows<float>("float16", widens, entries);
  list_rows<double>("float64", "chosen", entries);
  return entries;
}

}  // namespace cogwheel
