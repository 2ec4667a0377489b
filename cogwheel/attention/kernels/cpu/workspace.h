// Scratch memory that a thread keeps between calls: page faults of large short-lived blocks cost up to twice the
// kernel.
#pragma once
#include <cstddef>

namespace cogwheel {

enum class Scratch {
  task,  // of the worker that runs a task
  call,  // of the thread that makes the call, shared by the tasks of the call
};

// At least `bytes`, aligned to 64, the same block for every call of a thread and purpose; its contents are left over
// from the last use. A block of more than 64 MiB is freed when a smaller one is asked for.
void* thread_workspace(Scratch purpose, std::size_t bytes);

// Hands out consecutive aligned pieces of one block. With a null base it only measures.
class WorkspaceLayout {
 public:
  explicit WorkspaceLayout(void* base = nullptr) : base_(static_cast<std::byte*>(base)) {}

  template <class T>
  T* take(std::size_t count) {
    std::byte* piece = base_ ? base_ + used_ : nullptr;
    used_ += (count * sizeof(T) + 63) / 64 * 64;
    return reinterpret_cast<T*>(piece);
  }
  std::size_t bytes() const { return used_; }

 private:
  std::byte* base_;
  std::size_t used_ = 0;
};

}  // namespace cogwheel
