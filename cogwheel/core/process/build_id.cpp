#include "cogwheel/core/process/build_id.h"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <set>
#include <string_view>
#include <utility>

#include "cogwheel/core/encoding/sha256.h"

namespace cogwheel {
namespace {

// The notes of a segment are a header, a name and a description each, both filled up to a multiple of four bytes.
std::string id_in_notes(const char* notes, std::size_t bytes) {
  const auto padded = [](std::size_t size) { return (size + 3) & ~std::size_t{3}; };
  while (bytes >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) header;
    std::memcpy(&header, notes, sizeof header);
    const std::size_t whole = sizeof header + padded(header.n_namesz) + padded(header.n_descsz);
    if (whole > bytes) break;
    const char* const name = notes + sizeof header;
    if (header.n_type == NT_GNU_BUILD_ID && std::string_view(name, header.n_namesz) == std::string_view("GNU", 4)) {
      constexpr std::string_view digits = "0123456789abcdef";
      std::string id;
      for (std::size_t place = 0; place < header.n_descsz; ++place) {
        const auto byte = static_cast<unsigned char>(name[padded(header.n_namesz) + place]);
        id += {digits[byte >> 4], digits[byte & 15]};
      }
      return id;
    }
    notes += whole;
    bytes -= whole;
  }
  return "";
}

struct Search {
  const std::vector<std::string>* libraries;
  bool first = true;            // that is the executable
  std::set<std::string> found;  // sorted, whatever the order of loading
  bool of_executable = false;
};

int read_object(dl_phdr_info* object, std::size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  const bool executable = std::exchange(search.first, false);
  const std::string path = object->dlpi_name, name = path.substr(path.rfind('/') + 1);
  const bool wanted = executable || std::ranges::any_of(*search.libraries, [&](const std::string& library) {
                        return name.find(library) != std::string::npos;
                      });
  if (!wanted) return 0;
  for (int index = 0; index < object->dlpi_phnum; ++index) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[index];
    if (segment.p_type != PT_NOTE) continue;
    const auto* const notes = reinterpret_cast<const char*>(object->dlpi_addr + segment.p_vaddr);
    if (std::string id = id_in_notes(notes, segment.p_filesz); !id.empty()) {
      search.found.insert(std::move(id));
      search.of_executable |= executable;
      break;
    }
  }
  return 0;
}

}  // namespace

std::string build_id(const std::vector<std::string>& libraries) {
  Search search{.libraries = &libraries, .found = {}};
  ::dl_iterate_phdr(read_object, &search);
  if (!search.of_executable) return "";
  std::string all;
  for (const std::string& id : search.found) all += id + "\n";
  return sha256(all).substr(0, 16);
}

}  // namespace cogwheel
