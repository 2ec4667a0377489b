// The weights of a foreign folder: one safetensors file, or several parts and the index that transformers writes beside
// them. Tensors are read one by one, so that the files never lie in memory beside the model.
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cogwheel/runs/safetensors.h"

namespace cogwheel::interchange {

// Where a tensor of theirs lies; valid as long as the ForeignWeights.
struct ForeignTensor {
  const runs::SafeTensorsFile* file;
  const runs::SafeTensorsFile::Entry* entry;

  const std::vector<std::int64_t>& shape() const { return entry->shape; }
  bool is_float() const;          // float32, float16 or bfloat16
  std::string type_text() const;  // for messages
};

class ForeignWeights {
 public:
  // Throws Error where neither is there, where a file is a pickle or damaged, and where index and parts differ.
  explicit ForeignWeights(const std::filesystem::path& folder);

  // What a message about a tensor names: the file, or the index.
  const std::filesystem::path& path() const { return path_; }
  const std::map<std::string, ForeignTensor>& tensors() const { return tensors_; }

 private:
  void add(const std::filesystem::path& path);

  std::filesystem::path path_;
  std::vector<std::unique_ptr<const runs::SafeTensorsFile>> files_;
  std::map<std::string, ForeignTensor> tensors_;
};

}  // namespace cogwheel::interchange
