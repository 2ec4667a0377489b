#include "cogwheel/attention/kernels/cpu/workspace.h"

#include <cstdlib>
#include <memory>
#include <new>

namespace cogwheel {
namespace {

constexpr std::size_t kept_bytes = std::size_t{64} << 20;

struct Free {
  void operator()(void* block) const { std::free(block); }
};

struct Block {
  std::unique_ptr<void, Free> memory;
  std::size_t bytes = 0;
};

}  // namespace

void* thread_workspace(Scratch purpose, std::size_t bytes) {
  thread_local Block blocks[2];
  Block& block = blocks[purpose == Scratch::call];
  if (bytes > block.bytes || (block.bytes > kept_bytes && bytes <= kept_bytes)) {
    block.memory.reset();
    block.bytes = 0;
    const std::size_t rounded = (bytes + 4095) / 4096 * 4096;
    block.memory.reset(std::aligned_alloc(64, rounded));
    if (!block.memory) throw std::bad_alloc();
    block.bytes = rounded;
  }
  return block.memory.get();
}

}  // namespace cogwheel
