// The weights of a foreign folder: one safetensors file, or several parts and the index that transformers writes beside
// them.
#pragma once
#include <filesystem>

#include "cogwheel/interchange/tensor_table.h"

namespace cogwheel::interchange {

struct ForeignWeights {
  NamedTensors tensors;
  std::filesystem::path path;  // what a message about a tensor names: the file, or the index
};

// Throws Error where neither is there, where a file is a pickle or damaged, and where index and parts differ.
ForeignWeights read_foreign_weights(const std::filesystem::path& folder);

}  // namespace cogwheel::interchange
