#include "cogwheel/runs/foreign_file.h"

#include <array>
#include <fstream>
#include <string_view>

#include "cogwheel/core/error.h"

namespace cogwheel::runs {
namespace {

// "" for anything else. The ninth byte of a safetensors file opens its header.
std::string foreign_kind(const std::filesystem::path& path) {
  std::array<char, 9> bytes{};
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), bytes.size());
  const std::string_view start(bytes.data(), static_cast<std::size_t>(file.gcount()));
  if (start.size() == bytes.size() && start.back() == '{') return "";
  if (start.starts_with("PK\x03\x04")) return "a zip archive, as torch.save and numpy.savez write it";
  // The opcode PROTO and its version.
  if (start.size() >= 2 && start[0] == '\x80' && start[1] >= 2 && start[1] <= 5) return "a pickle";
  return "";
}

}  // namespace

void expect_no_pickle(const std::filesystem::path& path, const std::string& conversion) {
  if (const std::string kind = foreign_kind(path); !kind.empty())
    throw Error(
        expected_got(path.string(), "a safetensors file",
                     kind + "; to convert it, with the package safetensors: python3 -c \"" + conversion + "\""));
}

SafeTensors load_safetensors_or_say(const std::filesystem::path& path, const std::string& conversion) {
  expect_no_pickle(path, conversion);
  return load_safetensors(path);
}

}  // namespace cogwheel::runs
