#include "cogwheel/interchange/row_order.h"

#include <cstddef>

#include "cogwheel/nn/rotary.h"

namespace cogwheel::interchange {

Order adjacent_from_halves(std::int64_t heads, std::int64_t head_dim) {
  const Order of_head = nn::component_order(nn::RotaryLayout::halves, nn::RotaryLayout::interleaved, head_dim);
  Order order;
  for (std::int64_t head = 0; head < heads; ++head)
    for (const std::int64_t component : of_head) order.push_back(head * head_dim + component);
  return order;
}

Order paired_from_halves(std::int64_t heads, std::int64_t head_dim) {
  Order order;
  for (std::int64_t head = 0; head < heads; ++head)
    for (std::int64_t component = 0; component < head_dim; ++component)
      order.push_back((head / 2 + head % 2 * (heads / 2)) * head_dim + component);
  return order;
}

Order composed(const Order& first, const Order& second) {
  Order order;
  for (const std::int64_t place : first) order.push_back(second.at(static_cast<std::size_t>(place)));
  return order;
}

}  // namespace cogwheel::interchange
