// Tensors that ranks exchange together. Every exchange waits for all ranks: small tensors share one.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <string>
#include <vector>

#include "cogwheel/distributed/group.h"

namespace cogwheel::distributed {

// Whether tensors of so many bytes in all travel in one exchange. Of larger ones a second wait is little, and apart the
// first can be used, and let go, before the rest has come.
inline constexpr bool travel_together(std::int64_t bytes) { return bytes <= largest_message; }
// Of one type only.
bool travel_together(const std::vector<at::Tensor>& tensors);

class JointExchange {
 public:
  JointExchange() = default;
  // Group::gather of each tensor, Group::exchange of each.
  static JointExchange gather(const Group& group, const std::vector<at::Tensor>& own, const std::string& what);
  static JointExchange exchange(const Group& group, const std::vector<at::Tensor>& parts, const std::string& what);

  // The result of one tensor after the other, [ranks, …]. Waits.
  at::Tensor next(const std::string& what);

 private:
  // Begins one exchange of all, as tensors [rows, numbers], or one of each.
  template <class Begin>
  static JointExchange begun(const std::vector<at::Tensor>& tensors, std::int64_t rows, const Begin& begin);

  std::vector<Exchange> exchanges_;               // of each tensor, or one
  std::vector<std::vector<std::int64_t>> sizes_;  // of each result, where they travel together
  at::Tensor together_;                           // [ranks, numbers of all]
  std::size_t given_ = 0;
  std::int64_t first_ = 0;  // number of the next one
};

}  // namespace cogwheel::distributed
