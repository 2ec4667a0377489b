// The options of laws: what a law's layer does only if it is asked to. A law's header names them
// (RecurrentLaw::options); `model.<name>` of a configuration, with what reads and records it, follows from the
// catalogue.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/attention/mechanisms/law_option.h"

namespace cogwheel {

// Those of all laws, each name once.
std::vector<LawOption> law_options();

// Which of them are on; at first none.
class LawSwitches {
 public:
  bool on(std::string_view name) const {
    const auto found = switches_.find(name);
    return found != switches_.end() && found->second;
  }
  // Where it is held as long as this lives.
  bool& operator[](std::string_view name) { return switches_.try_emplace(std::string(name)).first->second; }

  // One that was never asked about is off.
  bool operator==(const LawSwitches& other) const {
    for (const auto* of : {&switches_, &other.switches_})
      for (const auto& [name, is_on] : *of)
        if (on(name) != other.on(name)) return false;
    return true;
  }

 private:
  std::map<std::string, bool, std::less<>> switches_;
};

}  // namespace cogwheel
