// The safetensors format: eight bytes of length (little endian), a JSON header, the numbers one after another.
#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>

namespace cogwheel {

struct SafeTensors {
  std::map<std::string, at::Tensor> tensors;  // float32, float64 or int64
  std::map<std::string, std::string> metadata;
};

// Replaces the file as a whole.
void save_safetensors(const SafeTensors& contents, const std::filesystem::path& path);
// Throws Error where the file is none or is damaged: as the format asks, tensors must fill the data without overlap or
// gap. Whether their bits are those that were written only a hash can tell.
SafeTensors load_safetensors(const std::filesystem::path& path);

// Of every name, type, shape and number and of the metadata, but for an entry "sha256" in it.
std::string sha256(const SafeTensors& contents);

}  // namespace cogwheel
