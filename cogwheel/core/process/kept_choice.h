// A choice that a process makes once, when it is first needed, and keeps unless it is told to choose otherwise.
#pragma once
#include <atomic>
#include <forward_list>
#include <mutex>
#include <utility>

namespace cogwheel {

// Reading is one atomic load. Every choice lives as long as this object: who has read one may go on reading it.
template <class Choice>
class KeptChoice {
 public:
  // make() is called where there is no choice yet; what it throws leaves none.
  template <class Make>
  const Choice& get_or(const Make& make) {
    if (const Choice* chosen = current_.load(std::memory_order_acquire)) return *chosen;
    const std::lock_guard lock(making_);
    if (const Choice* chosen = current_.load(std::memory_order_acquire)) return *chosen;
    return keep(make());
  }

  void set(Choice choice) {
    const std::lock_guard lock(making_);
    keep(std::move(choice));
  }

 private:
  const Choice& keep(Choice choice) {
    all_.push_front(std::move(choice));
    current_.store(&all_.front(), std::memory_order_release);
    return all_.front();
  }

  std::atomic<const Choice*> current_ = nullptr;
  std::mutex making_;
  std::forward_list<Choice> all_;
};

}  // namespace cogwheel
