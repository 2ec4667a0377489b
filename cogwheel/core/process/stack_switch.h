// Tells the sanitizers, where a program is built with one, that a thread goes on with another stack: without this,
// AddressSanitizer takes the other stack for an overflow when an exception passes, and ThreadSanitizer takes functions
// on different stacks for nested calls.
#pragma once
#include <cstddef>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__
#endif
#if __has_feature(thread_sanitizer) && !defined(__SANITIZE_THREAD__)
#define __SANITIZE_THREAD__
#endif
#endif

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#elif defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace cogwheel {

// A stack beside that of the thread, for one function on it. Calls come in pairs: `entering` before the thread goes to
// it and `left` when it is back, `entered` on it and `leaving` before it is left.
class StackSwitch {
 public:
#if defined(__SANITIZE_ADDRESS__)
  StackSwitch(const void* stack, std::size_t bytes) : stack_(stack), bytes_(bytes) {}
  void entering() { __sanitizer_start_switch_fiber(&outer_fake_, stack_, bytes_); }
  void entered() { __sanitizer_finish_switch_fiber(inner_fake_, &outer_stack_, &outer_bytes_); }
  void leaving(bool for_good) {
    __sanitizer_start_switch_fiber(for_good ? nullptr : &inner_fake_, outer_stack_, outer_bytes_);
    if (for_good) inner_fake_ = nullptr;
  }
  void left() { __sanitizer_finish_switch_fiber(outer_fake_, nullptr, nullptr); }

 private:
  const void *stack_, *outer_stack_ = nullptr;
  std::size_t bytes_, outer_bytes_ = 0;
  void *outer_fake_ = nullptr, *inner_fake_ = nullptr;  // where the sanitizer keeps variables of either stack
#elif defined(__SANITIZE_THREAD__)
  StackSwitch(const void*, std::size_t) : inner_(__tsan_create_fiber(0)) {}
  StackSwitch(const StackSwitch&) = delete;
  StackSwitch& operator=(const StackSwitch&) = delete;
  ~StackSwitch() { __tsan_destroy_fiber(inner_); }
  // Inlined, because a function must end on the stack on which it began.
  [[gnu::always_inline]] void entering() {
    outer_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(inner_, 0);
  }
  void entered() {}
  [[gnu::always_inline]] void leaving(bool) { __tsan_switch_to_fiber(outer_, 0); }
  void left() {}

 private:
  void *inner_, *outer_ = nullptr;
#else
  StackSwitch(const void*, std::size_t) {}
  void entering() {}
  void entered() {}
  void leaving(bool) {}
  void left() {}
#endif
};

}  // namespace cogwheel
