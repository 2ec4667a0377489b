#include "cogwheel/core/process/fiber.h"

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <utility>

#include "cogwheel/core/error.h"
#include "cogwheel/core/process/stack_switch.h"

namespace cogwheel {
namespace {

// As that of a main thread; memory is used as it is touched.
constexpr std::size_t stack_bytes = std::size_t{8} << 20;

}  // namespace

struct Fiber::State {
  ucontext_t inside{}, outside{};
  void* stack = MAP_FAILED;
  std::optional<StackSwitch> stack_switch;
  std::function<void()> body;
  std::exception_ptr thrown;
  bool ended = true;

  // makecontext passes ints.
  static void run(unsigned upper, unsigned lower) {
    auto* const state = reinterpret_cast<State*>(std::uintptr_t{upper} << 32 | lower);
    state->stack_switch->entered();
    state->run_body();
    state->stack_switch->leaving(/*for_good=*/true);
    ::setcontext(&state->outside);  // and not by the end of this function, which began on another stack
  }
  void run_body() {
    try {
      body();
    } catch (...) {
      thrown = std::current_exception();
    }
    body = nullptr;
    ended = true;
  }
};

Fiber::Fiber() : state_(std::make_unique<State>()) {
  state_->stack = ::mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (state_->stack == MAP_FAILED) throw Error(expected_got("fiber", "memory for a stack", "none"));
  // The lowest page, which an overflow reaches first.
  ::mprotect(state_->stack, static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)), PROT_NONE);
}

Fiber::~Fiber() { ::munmap(state_->stack, stack_bytes); }

void Fiber::start(std::function<void()> body) {
  State& state = *state_;
  state.body = std::move(body);
  state.ended = false;
  state.stack_switch.emplace(state.stack, stack_bytes);
  ::getcontext(&state.inside);
  state.inside.uc_stack.ss_sp = state.stack;
  state.inside.uc_stack.ss_size = stack_bytes;
  const auto address = reinterpret_cast<std::uintptr_t>(&state);
  ::makecontext(&state.inside, reinterpret_cast<void (*)()>(&State::run), 2, static_cast<unsigned>(address >> 32),
                static_cast<unsigned>(address));
  enter();
}

void Fiber::resume() { enter(); }

void Fiber::enter() {
  state_->stack_switch->entering();
  ::swapcontext(&state_->outside, &state_->inside);
  state_->stack_switch->left();
  if (state_->thrown) std::rethrow_exception(std::exchange(state_->thrown, nullptr));
}

bool Fiber::ended() const { return state_->ended; }

void Fiber::pause() {
  state_->stack_switch->leaving(/*for_good=*/false);
  ::swapcontext(&state_->inside, &state_->outside);
  state_->stack_switch->entered();
}

}  // namespace cogwheel
