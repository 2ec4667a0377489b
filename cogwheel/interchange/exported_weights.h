// Weights as files that transformers reads: one, or parts of bounded size with the index of their tensors.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/interchange/tensor_table.h"

namespace cogwheel {
class AtomicFile;
}

namespace cogwheel::interchange {

inline constexpr const char* foreign_weights_file = "model.safetensors";
inline constexpr const char* foreign_index_file = "model.safetensors.index.json";

// Whether a file's name is one that weights are written under.
bool is_weights_file(std::string_view name);

struct WeightsFormat {
  std::string dtype = "fp32";    // "bf16" or "fp16"
  std::int64_t shard_bytes = 0;  // of the numbers in a file, unless one tensor has more; 0: all in one file
};

// Throws UsageError for another dtype.
void check(const WeightsFormat& format);
// As PyTorch calls it, "bfloat16".
std::string_view torch_name(const WeightsFormat& format);

// Files that are finished and not yet committed, the index last. Tensors keep their order. Throws Error for a number
// that the dtype cannot hold, by the name of its tensor.
std::vector<std::unique_ptr<AtomicFile>> write_weights(const std::vector<OutgoingTensor>& weights,
                                                       const std::filesystem::path& folder,
                                                       const WeightsFormat& format);

}  // namespace cogwheel::interchange
