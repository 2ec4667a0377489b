// How pages and files name heads: L9H4 is the fifth head of the tenth layer.
#pragma once
#include <cstdint>
#include <string>

namespace cogwheel {

inline std::string head_layer_name(std::int64_t layer) { return "L" + std::to_string(layer); }
inline std::string head_name(std::int64_t layer, std::int64_t head) {
  return head_layer_name(layer) + "H" + std::to_string(head);
}

// Of a mechanism that subtracts maps, which has `halves` sub-heads in each head: L0H1a, L0H1b. With one, as above.
inline std::string sub_head_name(std::int64_t layer, std::int64_t sub_head, std::int64_t halves) {
  if (halves == 1) return head_name(layer, sub_head);
  return head_name(layer, sub_head / halves) + static_cast<char>('a' + sub_head % halves);
}

}  // namespace cogwheel
