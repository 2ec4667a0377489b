// Things that are asked for by number, mostly one after the other, made by a thread of its own before they are.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace cogwheel::text {

// At most `ahead` things wait, and one more is being made: memory stays constant. What `make` throws reaches whoever
// asks for that thing. Asking for another number than the next begins anew there. One thread may ask; `make` runs in
// another.
template <class Thing>
class MadeAhead {
 public:
  MadeAhead(std::function<Thing(std::int64_t)> make, std::int64_t ahead)
      : make_(std::move(make)), ahead_(ahead), maker_([this](const std::stop_token& stop) { run(stop); }) {}

  Thing at(std::int64_t number) {
    std::unique_lock lock(mutex_);
    if (number != first_) {
      made_.clear();
      first_ = next_ = number;
      ++sequence_;
    }
    changed_.notify_all();
    changed_.wait(lock, [&] { return !made_.empty(); });
    Made made = std::move(made_.front());
    made_.pop_front();
    first_ = made.failure ? none : number + 1;
    lock.unlock();
    changed_.notify_all();
    if (made.failure) std::rethrow_exception(made.failure);
    return std::move(made.thing);
  }

 private:
  struct Made {
    Thing thing = {};
    std::exception_ptr failure;
  };
  static constexpr std::int64_t none = -1;

  void run(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, stop, [&] { return next_ != none && std::ssize(made_) < ahead_; })) {
      const std::int64_t number = next_, sequence = sequence_;
      lock.unlock();
      Made made;
      try {
        made.thing = make_(number);
      } catch (...) {
        made.failure = std::current_exception();
      }
      lock.lock();
      if (sequence != sequence_) continue;  // no longer asked for
      next_ = made.failure ? none : number + 1;
      made_.push_back(std::move(made));
      changed_.notify_all();
    }
  }

  std::function<Thing(std::int64_t)> make_;
  std::int64_t ahead_;  // 1 or more
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Made> made_;                    // from number first_ on
  std::int64_t first_ = none, next_ = none;  // what is asked for next; what is made next
  std::int64_t sequence_ = 0;                // how often it began anew
  std::jthread maker_;                       // last: it uses all of the above
};

}  // namespace cogwheel::text
