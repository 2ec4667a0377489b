// How kernels in Triton's language divide their work: measured by what a compiler makes of them, which need not have a
// device (python -m cogwheel.device_kernels).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace cogwheel::ops {

struct BlockSizes {
  std::int64_t rows, keys;     // of a program's block of pairs
  std::int64_t warps, stages;  // how a compiler lays out the work
};

// What sizes depend on.
struct BlockNeeds {
  std::int64_t width = 0;         // the wider of a query and a value, as a power of two
  std::string target = {};        // sm_90, gfx942 …
  std::int64_t shared_bytes = 0;  // that a program may have there
  bool reads_pairs = false;       // the call has biases or an additive score
  bool wide_numbers = false;      // queries, or outputs and their gradients, are in float32
};

// Those on trial (cogwheel::try_block_sizes), else those of a table. Throws UsageError where no kernel is as wide.
BlockSizes block_sizes(std::string_view kernel, const BlockNeeds& needs);

// For the interpreter, where none are on trial: small, so that short texts have several blocks; of long ones it takes a
// time for each block, whatever its size.
BlockSizes interpreted_block_sizes(std::string_view kernel, std::int64_t queries, std::int64_t keys);

}  // namespace cogwheel::ops
