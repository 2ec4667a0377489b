// A hash table of kernels by what they compute. Each family of mechanisms has a table.
#pragma once
#include <deque>
#include <functional>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>

namespace cogwheel {

struct KernelKey {
  std::string_view signature;  // what it computes; of the pairwise family the row map
  std::string_view device, isa, dtype;

  bool operator==(const KernelKey&) const = default;
};

struct KernelKeyHash {
  std::size_t operator()(const KernelKey& key) const {
    std::size_t hash = 0;
    for (const std::string_view part : {key.signature, key.device, key.isa, key.dtype})
      hash = hash * 0x9E3779B97F4A7C15 + std::hash<std::string_view>()(part);
    return hash;
  }
};

// Any thread may call. Entries never move and are never removed, so the result of `find` is valid as long as the table.
template <class Kernel>
class KernelTable {
 public:
  struct Entry {
    KernelKey key;
    Kernel kernel;
  };

  // Copies the texts of the key. If the key has a kernel already, it stays.
  void add(const KernelKey& key, const Kernel& kernel) {
    const std::unique_lock lock(access_);
    if (by_key_.contains(key)) return;
    const auto kept = [&](std::string_view text) -> std::string_view { return texts_.emplace_back(text); };
    const Entry& entry =
        entries_.emplace_back(Entry{{kept(key.signature), kept(key.device), kept(key.isa), kept(key.dtype)}, kernel});
    by_key_.emplace(entry.key, &entry);
  }

  // Null if there is none.
  const Kernel* find(const KernelKey& key) const {
    const std::shared_lock lock(access_);
    const auto found = by_key_.find(key);
    return found == by_key_.end() ? nullptr : &found->second->kernel;
  }

  // Calls visit(entry) for each, in the order in which they were added.
  template <class Visit>
  void each(const Visit& visit) const {
    const std::shared_lock lock(access_);
    for (const Entry& entry : entries_) visit(entry);
  }

 private:
  mutable std::shared_mutex access_;
  std::deque<std::string> texts_;
  std::deque<Entry> entries_;
  std::unordered_map<KernelKey, const Entry*, KernelKeyHash> by_key_;
};

}  // namespace cogwheel
