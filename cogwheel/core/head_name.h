// How pages and files name heads: L9H4 is the fifth head of the tenth layer.
#pragma once
#include <cstdint>
#include <string>

namespace cogwheel {

inline std::string head_layer_name(std::int64_t layer) { return "L" + std::to_string(layer); }
inline std::string head_name(std::int64_t layer, std::int64_t head) {
  return head_layer_name(layer) + "H" + std::to_string(head);
}

}  // namespace cogwheel
