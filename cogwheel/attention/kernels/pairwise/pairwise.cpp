#include "cogwheel/attention/kernels/pairwise/pairwise.h"

#include <string>
#include <type_traits>
#include <variant>

#include "cogwheel/attention/kernels/cpu/pair_product.h"
#include "cogwheel/attention/kernels/isa.h"
#include "cogwheel/attention/kernels/kernel_list.h"
#include "cogwheel/attention/kernels/kernel_table.h"
#include "cogwheel/attention/kernels/pairwise/added_kernels.h"
#include "cogwheel/attention/kernels/pairwise/pairwise_table.h"  // generated from mechanisms.def
#include "cogwheel/attention/kernels/pairwise/product_choice.h"
#include "cogwheel/core/error.h"

namespace cogwheel {
namespace {

template <class T>
constexpr std::string_view name_of_type = std::is_same_v<T, float> ? "float32" : "float64";

using Table = KernelTable<std::variant<PairwiseKernel<float>, PairwiseKernel<double>>>;

template <class T>
void add(Table& table, std::string_view mechanism, std::string_view isa, const PairwiseKernel<T>& kernel) {
  table.add({mechanism, cpu_device, isa, name_of_type<T>}, kernel);
}

// The kernels that were built, and those that are compiled while the program runs.
struct Kernels {
  Table table;

  Kernels() {
    for (const auto& row : pairwise_float_table()) add(table, row.mechanism, row.isa, *row.kernel);
    for (const auto& row : pairwise_double_table()) add(table, row.mechanism, row.isa, *row.kernel);
  }
};

Table& kernels() {
  static Kernels all;
  return all.table;
}

// Lists the kernels of a type, which serve `dtype`; `how` describes the chosen ones.
void list_rows(std::string_view type, std::string_view dtype, std::string_view chosen, std::string_view how,
               std::vector<KernelEntry>& entries) {
  kernels().each([&](const Table::Entry& entry) {
    const KernelKey& key = entry.key;
    if (key.device != cpu_device || key.dtype != type) return;
    entries.push_back(entry_of_kernel(key.signature, key.isa, dtype, chosen, how));
  });
}

}  // namespace

template <class T>
PairwiseKernel<T> pairwise_kernel(std::string_view mechanism, std::string_view device, std::string_view isa) {
  if (const auto* kernel = kernels().find({mechanism, device, isa, name_of_type<T>}))
    return std::get<PairwiseKernel<T>>(*kernel);
  std::string message = "no kernel for mechanism " + std::string(mechanism) + " on " + std::string(device) + ", " +
                        std::string(isa) + ", " + std::string(name_of_type<T>);
  if (device != cpu_device) throw UsageError(message);
  for (const InstructionSet& set : instruction_sets())
    if (set.name == isa && !set.complete)
      message += ": this build has all of its kernels for another machine; COGWHEEL_ALL_ISAS builds them for every one";
  throw UsageError(message);
}

template PairwiseKernel<float> pairwise_kernel<float>(std::string_view, std::string_view, std::string_view);
template PairwiseKernel<double> pairwise_kernel<double>(std::string_view, std::string_view, std::string_view);

void add_pairwise_kernels(std::string_view mechanism, std::string_view isa, const PairwiseKernel<float>& of_float,
                          const PairwiseKernel<double>& of_double) {
  add(kernels(), mechanism, isa, of_float);
  add(kernels(), mechanism, isa, of_double);
}

std::vector<KernelEntry> available_kernels(std::string_view isa) {
  std::vector<KernelEntry> entries;
  constexpr std::string_view chosen = "chosen", widens = "chosen; computes in float32, widening as it reads";
  const PairProduct* pairs = chosen_pair_product();
  const std::string by_pairs =
      pairs ? "chosen; computes in float32, multiplies by " + std::string(pairs->instructions) : std::string(widens);
  const std::string_view single = name_of_type<float>;
  list_rows(single, single, isa, chosen, entries);
  list_rows(single, "bfloat16", isa, by_pairs, entries);
  list_rows(single, "float16", isa, widens, entries);
  list_rows(name_of_type<double>, name_of_type<double>, isa, chosen, entries);
  return entries;
}

}  // namespace cogwheel
