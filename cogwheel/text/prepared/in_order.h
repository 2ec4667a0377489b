// Things that are read one after another, worked on side by side, and taken in the order in which they were read.
#pragma once
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace cogwheel::text {

// `read` and `take` are each called by one thread at a time, `work` by any number; worker numbers of calls at the same
// time differ. No thread has a part of its own: each takes what is waiting, first of all what can be taken, so that
// neither reading nor taking leaves a thread without work. Things that are read and not yet taken have at most `room`
// (by `size`) in all, or are few. What `read` or `work` throws is thrown when its turn to be taken comes, so that what
// stands before it is taken whatever the threads; then, and where `take` throws, nothing more is read.
template <class Thing>
class InOrder {
 public:
  std::function<std::optional<Thing>()> read;
  std::function<void(Thing&, int worker)> work;
  std::function<void(Thing&&)> take;
  std::function<std::size_t(const Thing&)> size;
  std::size_t room = std::size_t{64} << 20;

  void run(int threads) {
    most_waiting_ = 2 * threads + 2;
    std::vector<std::jthread> others;
    for (int worker = 1; worker < threads; ++worker) others.emplace_back([this, worker] { loop(worker); });
    loop(0);
    others.clear();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  struct Done {
    std::optional<Thing> thing;
    std::exception_ptr failure;
    std::size_t size = 0;
  };

  void loop(int worker) {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (failure_ || (ended_ && next_taken_ == next_read_)) break;
      if (const auto first = done_.find(next_taken_); first != done_.end() && !taking_) {
        take_one(first, lock);
      } else if (!reading_ && !ended_ && next_read_ - next_taken_ < most_waiting_ &&
                 (held_ < room || next_read_ == next_taken_)) {
        read_one(worker, lock);
      } else {
        changed_.wait(lock);
      }
    }
    changed_.notify_all();
  }

  void take_one(typename std::map<std::int64_t, Done>::iterator first, std::unique_lock<std::mutex>& lock) {
    taking_ = true;
    Done done = std::move(first->second);
    done_.erase(first);
    lock.unlock();
    std::exception_ptr failure = done.failure;
    if (!failure) {
      try {
        take(std::move(*done.thing));
        done.thing.reset();  // its memory is given back before there is room for more
      } catch (...) {
        failure = std::current_exception();
      }
    }
    lock.lock();
    held_ -= done.size;
    taking_ = false;
    ++next_taken_;
    if (failure) failure_ = failure;
    changed_.notify_all();
  }

  void read_one(int worker, std::unique_lock<std::mutex>& lock) {
    reading_ = true;
    lock.unlock();
    Done done;
    try {
      done.thing = read();
    } catch (...) {
      done.failure = std::current_exception();
    }
    if (done.thing) done.size = size(*done.thing);
    lock.lock();
    reading_ = false;
    if (!done.thing) ended_ = true;
    if (!done.thing && !done.failure) return changed_.notify_all();
    const std::int64_t number = next_read_++;
    held_ += done.size;
    changed_.notify_all();
    lock.unlock();
    if (!done.failure) {
      try {
        work(*done.thing, worker);
      } catch (...) {
        done.failure = std::current_exception();
      }
    }
    lock.lock();
    done_.emplace(number, std::move(done));
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::int64_t, Done> done_;
  std::int64_t next_read_ = 0, next_taken_ = 0, most_waiting_ = 0;
  std::size_t held_ = 0;  // by things that were read and not yet taken
  bool reading_ = false, taking_ = false, ended_ = false;
  std::exception_ptr failure_;
};

}  // namespace cogwheel::text
