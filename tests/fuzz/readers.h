// The readers of files that come from others, each as a function of bytes.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace cogwheel {

struct Reader {
  std::string name;
  // Throws Error for bytes that are refused; whatever else it does but return is a fault.
  std::function<void(const std::string& bytes)> read;
  std::vector<std::string> seeds;  // files that are read, from which the fuzzer starts
  // Of checksums and the like, without which changes would be refused at once.
  std::function<void(std::string& bytes)> repair = {};
};

const std::vector<Reader>& readers();

}  // namespace cogwheel
