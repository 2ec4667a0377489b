// The header of a safetensors file: what it says of its tensors, without reading them.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/core/error.h"
#include "cogwheel/core/files/random_access_file.h"

namespace cogwheel::runs {

// The file is damaged: it is not what was written.
class DamagedFile : public Error {
 public:
  using Error::Error;
};

struct SafeTensorsHeader {
  struct Entry {
    std::string name, type;  // "F32"
    std::vector<std::int64_t> shape;
    std::uint64_t begin, end;  // bytes of the numbers
  };
  std::map<std::string, std::string> metadata = {};
  std::vector<Entry> entries = {};  // in the order of names
  std::uint64_t first = 0;          // the byte of the file where the numbers begin
};

inline constexpr std::string_view metadata_entry = "__metadata__";

// Bytes of a number of that type; 0: it is not known here.
std::int64_t bytes_of_type(std::string_view type);

// Throws DamagedFile where it says anything impossible: as the format demands, tensors must fill the data without
// overlap or gap.
SafeTensorsHeader read_safetensors_header(const RandomAccessFile& file);

}  // namespace cogwheel::runs
