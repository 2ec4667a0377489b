// A thread for each open connection of a server, kept for the next one for a moment: a connection that says nothing
// holds its thread until it times out, so that with a fixed number of threads a few such connections stop all others.
#pragma once
#include <httplib.h>

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>

namespace cogwheel::serve {

class ConnectionThreads : public httplib::TaskQueue {
 public:
  // More connections than `most` wait for one to end.
  explicit ConnectionThreads(std::size_t most) : most_(most) {}
  ~ConnectionThreads() override { shutdown(); }

  void enqueue(std::function<void()> work) override;
  // Until all that was enqueued is done.
  void shutdown() override;

 private:
  void serve_connections();

  const std::size_t most_;
  std::mutex mutex_;
  std::condition_variable arrived_, ended_;
  std::deque<std::function<void()>> waiting_;
  std::size_t threads_ = 0, idle_ = 0;
  bool closed_ = false;
};

}  // namespace cogwheel::serve
