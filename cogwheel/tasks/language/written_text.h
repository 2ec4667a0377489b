// The text of tokens as they come: whole characters, up to the first stop string.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cogwheel::tasks::language {

class WrittenText {
 public:
  explicit WrittenText(std::vector<std::string> stop) : stop_(std::move(stop)) {}

  // The bytes of the next token → what can be shown by now. What may be the beginning of a stop string, which may span
  // tokens, or of a character waits. A byte that belongs to no character becomes U+FFFD.
  std::string add(std::string_view bytes);
  // What is left where the text ends; nothing after a stop string.
  std::string finish();
  // Whether a stop string has come: what was shown ends before it.
  bool stopped() const { return stopped_; }

 private:
  std::string characters(std::size_t bytes, bool all);
  std::size_t held_back() const;

  std::vector<std::string> stop_;
  std::string waiting_;
  bool stopped_ = false;
};

}  // namespace cogwheel::tasks::language
