// The safetensors format: the length of the header in eight bytes (little endian), a JSON header, then the numbers.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "cogwheel/core/files/random_access_file.h"
#include "cogwheel/runs/safetensors_header.h"

namespace cogwheel {
class AtomicFile;
}

namespace cogwheel::runs {

struct SafeTensors {
  // Of float32, float64, int64, int32 or uint8; float16 and bfloat16 are read as float32.
  std::map<std::string, at::Tensor> tensors;
  std::map<std::string, std::string> metadata;
};

// A tensor that is made when it is its turn to be written.
struct TensorToWrite {
  std::string name;
  at::ScalarType type;
  std::vector<std::int64_t> shape;
  std::function<at::Tensor()> numbers;  // of this type, as many as the shape says; asked for once by each function

  std::uint64_t bytes() const;
};

// In the given order, one after the other. Throws Error for a type that SafeTensors lacks.
void write_safetensors(AtomicFile& file, const std::vector<TensorToWrite>& tensors,
                       const std::map<std::string, std::string>& metadata);
// The same with an entry "sha256" of the metadata, hashed while it is written: each tensor is made once.
void write_hashed_safetensors(AtomicFile& file, const std::vector<TensorToWrite>& tensors,
                              std::map<std::string, std::string> metadata);

// Replaces the file atomically. Tensors are written one after the other; those of a device are copied one at a time.
void save_safetensors(const SafeTensors& contents, const std::filesystem::path& path);
// Throws what opening a SafeTensorsFile throws. Only a hash can tell whether the bits are those that were written.
SafeTensors load_safetensors(const std::filesystem::path& path);

// The hash of every name, type, shape and number and of the metadata, except its entry "sha256". Tensors are made by
// several threads.
std::string sha256(const std::vector<TensorToWrite>& tensors, const std::map<std::string, std::string>& metadata);
std::string sha256(const SafeTensors& contents);

// A file whose tensors are read one by one, so that they need not all be there at once.
class SafeTensorsFile {
 public:
  struct Entry {
    std::string name;
    at::ScalarType type;
    std::vector<std::int64_t> shape;
    std::uint64_t begin, end;  // bytes of the numbers
  };

  // Throws Error where the file is missing, DamagedFile for its header.
  explicit SafeTensorsFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  // In the order of names.
  const std::vector<Entry>& entries() const { return entries_; }
  const Entry* find(const std::string& name) const;

  // Throws Error where the file cannot be read, or for a type that SafeTensors lacks.
  at::Tensor tensor(const Entry& entry) const;  // float16 and bfloat16 as float32
  // Into a tensor of the same type and as many numbers, on any device.
  void read_into(const Entry& entry, at::Tensor target) const;
  // Numbers `first`, `first` + 1, … of a tensor of float32, float16 or bfloat16, into a contiguous float32 tensor of
  // the CPU; from any thread.
  void read_float32(const Entry& entry, std::int64_t first, at::Tensor target) const;

  // sha256() of what it holds. Unless it is empty, `look` sees all numbers once, in pieces of a dimension, from several
  // threads.
  std::string sha256(const std::function<void(const Entry& entry, const at::Tensor& piece)>& look = {}) const;

 private:
  // `place`: of the numbers.
  void read(std::uint64_t place, void* into, std::size_t bytes) const;

  RandomAccessFile file_;
  std::uint64_t first_ = 0;  // where the numbers begin
  std::map<std::string, std::string> metadata_;
  std::vector<Entry> entries_;
};

}  // namespace cogwheel::runs
