// The safetensors format: the length of the header in eight bytes (little endian), a JSON header, then the numbers.
#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>

namespace cogwheel::runs {

struct SafeTensors {
  std::map<std::string, at::Tensor> tensors;  // float32, float64 or int64; float16 and bfloat16 are read as float32
  std::map<std::string, std::string> metadata;
};

// Replaces the file atomically.
void save_safetensors(const SafeTensors& contents, const std::filesystem::path& path);
// Throws Error where the file is missing or damaged: as the format demands, tensors must fill the data without overlap
// or gap. Only a hash can tell whether the bits are those that were written.
SafeTensors load_safetensors(const std::filesystem::path& path);
// Its metadata, without reading the numbers.
std::map<std::string, std::string> load_metadata(const std::filesystem::path& path);

// The hash of every name, type, shape and number and of the metadata, except its entry "sha256".
std::string sha256(const SafeTensors& contents);

}  // namespace cogwheel::runs
