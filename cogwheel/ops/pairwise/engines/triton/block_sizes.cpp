#include "cogwheel/ops/pairwise/engines/triton/block_sizes.h"

#include <torch/library.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cogwheel/core/error.h"
#include "cogwheel/ops/launch/launch.h"

namespace cogwheel::ops {
namespace {

constexpr std::int64_t kilobyte = 1024;

// Calls that take more memory than others with the same block: numbers of pairs as much as tiles of keys, and float32
// where a device has little.
enum class Call { any, reads_pairs, cramped };

struct Entry {
  std::string_view kernel, target;  // empty: any
  Call call;
  std::int64_t widest;
  BlockSizes sizes;
};

// The first that fits counts.
constexpr std::array entries{
    Entry{"", "", Call::cramped, 128, {32, 32, 4, 1}},
    Entry{"", "", Call::cramped, 256, {16, 16, 4, 1}},
    Entry{"decode", "", Call::any, 128, {16, 64, 4, 3}},  // of rows it has as many as the call
    Entry{"decode", "", Call::any, 256, {16, 32, 4, 2}},
    Entry{"merge", "", Call::any, 256, {1, 1, 4, 1}},
    Entry{"", "", Call::reads_pairs, 128, {64, 32, 8, 1}},
    Entry{"", "", Call::reads_pairs, 256, {32, 32, 8, 1}},
    Entry{"forward", "sm_100", Call::any, 64, {128, 64, 8, 2}},  // more stages took 8 bytes of stack there for `norm`
    Entry{"forward", "", Call::any, 64, {128, 64, 8, 4}},
    Entry{"forward", "", Call::any, 128, {128, 64, 8, 2}},
    Entry{"forward", "", Call::any, 256, {64, 32, 8, 2}},
    Entry{"backward_rows", "", Call::any, 256, {32, 64, 4, 1}},
    Entry{"backward_queries", "", Call::any, 64, {64, 32, 8, 2}},
    Entry{"backward_queries", "", Call::any, 128, {64, 64, 8, 2}},
    Entry{"backward_queries", "", Call::any, 256, {32, 32, 8, 2}},
    Entry{"backward_keys", "", Call::any, 128, {64, 32, 8, 2}},
    Entry{"backward_keys", "", Call::any, 256, {32, 32, 8, 1}},
    Entry{"", "", Call::any, 256, {64, 32, 8, 1}},
};

// Of the process: what `cogwheel bench attention --tune` measures in the place of the table's.
class Trials {
 public:
  void set(std::string_view kernel, const std::vector<std::int64_t>& sizes) {
    const std::lock_guard lock(mutex_);
    if (sizes.empty())
      sizes_.erase(std::string(kernel));
    else
      sizes_[std::string(kernel)] = {sizes[0], sizes[1], sizes[2], sizes[3]};
  }

  std::optional<BlockSizes> of(std::string_view kernel) {
    const std::lock_guard lock(mutex_);
    const auto found = sizes_.find(std::string(kernel));
    return found == sizes_.end() ? std::nullopt : std::optional(found->second);
  }

  static Trials& of_process() {
    static Trials trials;
    return trials;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, BlockSizes> sizes_;
};

void try_block_sizes(std::string_view kernel, const std::vector<std::int64_t>& sizes) {
  const auto is_power_of_two = [](std::int64_t size) { return size > 0 && (size & (size - 1)) == 0; };
  if (!sizes.empty() && (sizes.size() != 4 || !is_power_of_two(sizes[0]) || !is_power_of_two(sizes[1]) ||
                         !is_power_of_two(sizes[2]) || sizes[3] < 1))
    throw UsageError(expected_got("block sizes of " + std::string(kernel),
                                  "rows, keys and warps, powers of two, and stages, or none",
                                  std::to_string(sizes.size()) + " numbers"));
  Trials::of_process().set(kernel, sizes);
}

}  // namespace

BlockSizes block_sizes(std::string_view kernel, const BlockNeeds& needs) {
  if (const std::optional<BlockSizes> tried = Trials::of_process().of(kernel)) return *tried;
  const bool cramped = needs.wide_numbers && needs.shared_bytes < 128 * kilobyte;
  for (const Entry& each : entries)
    if ((each.kernel.empty() || each.kernel == kernel) && (each.target.empty() || each.target == needs.target) &&
        (each.call == Call::any || (each.call == Call::cramped ? cramped : needs.reads_pairs)) &&
        needs.width <= each.widest)
      return each.sizes;
  throw UsageError(expected_got("head_dim", "at most 256", std::to_string(needs.width)));
}

BlockSizes interpreted_block_sizes(std::string_view kernel, std::int64_t queries, std::int64_t keys) {
  if (const std::optional<BlockSizes> tried = Trials::of_process().of(kernel)) return *tried;
  const std::int64_t size = std::max(queries, keys) <= 256 ? 32 : 128;
  return {size, size, 1, 1};
}

TORCH_LIBRARY_FRAGMENT(cogwheel, library) {
  library.def(
      "block_sizes(str kernel, int width, str target, bool reads_pairs, bool wide_numbers) -> int[]",
      [](c10::string_view kernel, std::int64_t width, c10::string_view target, bool reads_pairs, bool wide_numbers) {
        const BlockSizes found = block_sizes(
            kernel, {padded_width(width), std::string(target), shared_bytes_of(target), reads_pairs, wide_numbers});
        return std::vector<std::int64_t>{found.rows, found.keys, found.warps, found.stages};
      });
  // From now on a kernel has these rows and keys of a block, warps and stages in every call of the process; with none,
  // again those of the table.
  library.def("try_block_sizes(str kernel, int[] sizes) -> ()",
              [](c10::string_view kernel, const std::vector<std::int64_t>& sizes) {
                try {
                  try_block_sizes(kernel, sizes);
                } catch (const UsageError& error) {
                  TORCH_CHECK_VALUE(false, error.what());
                }
              });
}

}  // namespace cogwheel::ops
