// Reads config.json of a foreign folder, key by key. A key that nobody asked for may change what the model computes, so
// it is refused.
#pragma once
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/core/range.h"

namespace cogwheel::interchange {

class ForeignConfig {
 public:
  // Throws Error where the file cannot be read or holds no JSON object.
  explicit ForeignConfig(std::filesystem::path path);

  // Whether the file says null; a key that it lacks is none.
  bool is_null(std::string_view key) const { return json_.contains(key) && json_[key].is_null(); }
  // All throw Error that names the file and the key for a value of another type or out of range.
  bool has(std::string_view key) const { return json_.contains(key) && !json_[key].is_null(); }
  std::int64_t whole(const std::string& key, std::int64_t otherwise, const Range<std::int64_t>& range);
  std::int64_t whole(const std::string& key, const Range<std::int64_t>& range);  // that must be there
  double number(const std::string& key, double otherwise, const Range<double>& range);
  double number(const std::string& key, const Range<double>& range);  // that must be there
  bool yes(const std::string& key, bool otherwise);
  std::string word(const std::string& key, const std::string& otherwise, const std::vector<std::string>& known);
  std::string text(const std::string& key, const std::string& otherwise);                         // any
  std::vector<std::string> words(const std::string& key, const std::vector<std::string>& known);  // of a list, or none
  // The object under a key, whose own keys are asked for alike, and `finish` of it.
  ForeignConfig part(const std::string& key);
  // The only one of `architectures`.
  std::string architecture();
  // The names of classes in `id2label`, whose keys are 0, 1, …; empty where it is missing.
  std::vector<std::string> class_names();
  // Refuses any other value than this one, which a missing key or null stands for.
  void expect(const std::string& key, const nlohmann::json& value);
  // Keys that change nothing about the numbers that a model computes.
  void skip(std::initializer_list<std::string_view> keys);
  // Refuses the first key that was never asked for. Keys that begin with _ are skipped.
  void finish() const;

  const std::filesystem::path& path() const { return path_; }
  [[noreturn]] void refuse(const std::string& key, const std::string& expected, const std::string& got) const;

 private:
  std::string known_word(const std::string& key, const nlohmann::json& value,
                         const std::vector<std::string>& known) const;
  ForeignConfig(std::filesystem::path path, std::string prefix, nlohmann::json json);
  const nlohmann::json* find(const std::string& key);

  std::filesystem::path path_;
  std::string prefix_;  // of keys, in messages: "rope_scaling."
  nlohmann::json json_;
  std::set<std::string, std::less<>> read_;
};

// The JSON object in a file. Throws Error where it cannot be read or is none.
nlohmann::json json_object(const std::filesystem::path& path);

}  // namespace cogwheel::interchange
