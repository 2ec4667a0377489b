#include "cogwheel/serve/connection_threads.h"

#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

namespace cogwheel::serve {

void ConnectionThreads::enqueue(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(work));
  if (idle_ >= waiting_.size()) {
    arrived_.notify_one();
    return;
  }
  if (threads_ == most_) return;
  try {
    std::thread([this] { serve_connections(); }).detach();
    ++threads_;
  } catch (const std::system_error&) {  // the system has no more; those there are take it
  }
}

void ConnectionThreads::shutdown() {
  std::unique_lock lock(mutex_);
  closed_ = true;
  arrived_.notify_all();
  ended_.wait(lock, [&] { return threads_ == 0; });
}

void ConnectionThreads::serve_connections() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (waiting_.empty() && !closed_) {
      ++idle_;
      arrived_.wait_for(lock, std::chrono::seconds(2), [&] { return closed_ || !waiting_.empty(); });
      --idle_;
    }
    if (waiting_.empty()) break;
    const std::function<void()> work = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    work();
    lock.lock();
  }
  --threads_;
  // Under the lock: after it, the object may be gone.
  ended_.notify_all();
}

}  // namespace cogwheel::serve
