#include "cogwheel/core/process/build_id.h"

#include <elf.h>
#include <link.h>

#include <cstddef>
#include <cstring>
#include <string_view>

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

// The first object is the executable.
int read_first(dl_phdr_info* object, std::size_t, void* id) {
  for (int index = 0; index < object->dlpi_phnum; ++index) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[index];
    if (segment.p_type != PT_NOTE) continue;
    const auto* const notes = reinterpret_cast<const char*>(object->dlpi_addr + segment.p_vaddr);
    if (std::string found = id_in_notes(notes, segment.p_filesz); !found.empty()) {
      *static_cast<std::string*>(id) = std::move(found);
      break;
    }
  }
  return 1;
}

}  // namespace

std::string build_id() {
  std::string id;
  ::dl_iterate_phdr(read_first, &id);
  return id;
}

}  // namespace cogwheel
