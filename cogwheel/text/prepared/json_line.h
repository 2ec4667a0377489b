// One field of a line of JSON.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "cogwheel/text/prepared/utf8_policy.h"

namespace cogwheel::text {

class JsonLineReader {
 public:
  // simdjson reads so many bytes beyond the end of a line, whatever they are.
  static constexpr std::size_t padding = 64;

  JsonLineReader();
  ~JsonLineReader();

  struct Field {
    std::string_view text = {};  // until the next call
    bool replaced = false;       // it was not UTF-8, and is now
    bool dropped = false;        // it was not UTF-8; there is no text
  };
  // `line` with `padding` readable bytes after it. All of the line is checked, not the field alone. Throws Error that
  // names `what` for a line that is no object in JSON, or lacks the field, or where it is no text.
  Field field(std::string_view line, const std::string& name, InvalidUtf8 policy, const std::string& what);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
  std::string changed_;
};

}  // namespace cogwheel::text
