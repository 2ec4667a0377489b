// A function that pauses in the middle, on a stack of its own, so that several take turns on one thread.
#pragma once
#include <functional>
#include <memory>

namespace cogwheel {

class Fiber {
 public:
  Fiber();
  ~Fiber();  // of one that is not paused
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs `body` until it pauses or ends; the stack is used again by the next body. What a body throws comes out of
  // here or of `resume`, and ends it.
  void start(std::function<void()> body);
  void resume();
  bool ended() const;

  // Within a body: back to whoever started or resumed it. Locks and exceptions that are being handled must not be held
  // over a pause, for they belong to the thread.
  void pause();

 private:
  struct State;
  void enter();

  std::unique_ptr<State> state_;
};

}  // namespace cogwheel
