#include "ops/stand_in_driver.h"

#include <elf.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <list>
#include <string_view>
#include <utility>

namespace cogwheel::stand_in {
namespace {

struct Parameter {
  unsigned place, size;
};

struct Function {
  std::string name;
  std::vector<Parameter> parameters;
};

template <class T>
T read(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// Of a cubin's section .nv.info.<kernel>: records of a format, an attribute and a size. Format 4 has a body; attribute
// 0x17 is a parameter: its number in bytes 4 and 5, its size in the upper bits of bytes 8 to 11.
std::vector<Parameter> parameters_in(const char* at, const char* end) {
  constexpr unsigned char with_body = 4, parameter = 0x17;
  std::vector<Parameter> found;
  while (at < end) {
    const auto format = read<unsigned char>(at), attribute = read<unsigned char>(at + 1);
    const auto size = read<std::uint16_t>(at + 2);
    at += 4;
    if (format != with_body) continue;
    if (attribute == parameter) found.push_back({read<std::uint16_t>(at + 4), read<std::uint32_t>(at + 8) >> 18});
    at += size;
  }
  std::sort(found.begin(), found.end(), [](const Parameter& a, const Parameter& b) { return a.place < b.place; });
  return found;
}

std::list<Function> functions;

void read_functions(const char* image) {
  constexpr std::string_view prefix = ".nv.info.";
  const auto header = read<Elf64_Ehdr>(image);
  const auto section = [&](unsigned i) { return read<Elf64_Shdr>(image + header.e_shoff + i * header.e_shentsize); };
  const char* const names = image + section(header.e_shstrndx).sh_offset;
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr each = section(i);
    const std::string_view name = names + each.sh_name;
    if (!name.starts_with(prefix)) continue;
    const char* const at = image + each.sh_offset;
    functions.push_back({std::string(name.substr(prefix.size())), parameters_in(at, at + each.sh_size)});
  }
}

}  // namespace
}  // namespace cogwheel::stand_in

extern "C" {

cogwheel::stand_in::State* stand_in_state() {
  static cogwheel::stand_in::State state;
  return &state;
}

int cuInit(unsigned) { return 0; }

int cuCtxGetDevice(int* device) {
  constexpr int invalid_context = 201;
  *device = stand_in_state()->used_device;
  return *device < 0 ? invalid_context : 0;
}

int cuDevicePrimaryCtxRetain(void** context, int) {
  *context = stand_in_state();
  ++stand_in_state()->contexts_made;
  return 0;
}

int cuCtxSetCurrent(void* context) {
  constexpr int invalid_context = 201;
  if (context != stand_in_state()) return invalid_context;
  stand_in_state()->used_device = 0;
  return 0;
}

int cuDeviceGetAttribute(int* value, int attribute, int) {
  const auto* const state = stand_in_state();
  *value = attribute == 75 ? state->capability / 10 : attribute == 76 ? state->capability % 10 : state->shared_bytes;
  return 0;
}

int cuModuleLoadData(void** module, const void* image) {
  constexpr int invalid_image = 200;
  if (std::memcmp(image, ELFMAG, SELFMAG) != 0) return invalid_image;
  cogwheel::stand_in::read_functions(static_cast<const char*>(image));
  *module = &cogwheel::stand_in::functions.back();
  return 0;
}

int cuModuleGetFunction(void** function, void* module, const char* name) {
  constexpr int not_found = 500;
  *function = module;
  return static_cast<cogwheel::stand_in::Function*>(module)->name == name ? 0 : not_found;
}

int cuDeviceGetName(char* name, int bytes, int) {
  std::snprintf(name, static_cast<std::size_t>(bytes), "Stand-in");
  return 0;
}

int cuFuncSetAttribute(void*, int, int value) {
  stand_in_state()->shared_bytes_asked.push_back(static_cast<unsigned>(value));
  return 0;
}

int cuLaunchKernel(void* function, unsigned grid_x, unsigned, unsigned, unsigned block_x, unsigned, unsigned,
                   unsigned shared_bytes, void* stream, void** arguments, void**) {
  auto* const state = stand_in_state();
  if (state->used_device < 0) return 201;
  if (state->refused != 0) return std::exchange(state->refused, 0);
  const auto& of = *static_cast<cogwheel::stand_in::Function*>(function);
  cogwheel::stand_in::Launched launched{of.name, grid_x, block_x, shared_bytes, stream, {}};
  for (std::size_t i = 0; i < of.parameters.size(); ++i)
    launched.arguments.emplace_back(static_cast<const char*>(arguments[i]), of.parameters[i].size);
  state->launched.push_back(std::move(launched));
  return 0;
}

int cuGetErrorString(int, const char** text) {
  *text = "out of memory";
  return 0;
}
}
