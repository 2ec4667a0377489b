#include "cogwheel/interpret/head_distance.h"

#include <torch/types.h>
#include <torch/utils.h>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/shape_text.h"

namespace cogwheel::interpret {

at::Tensor head_distances(const at::Tensor& maps) {
  const torch::NoGradGuard no_gradient;
  if (maps.dim() < 3 || maps.size(-1) != maps.size(-2) || maps.size(-1) < 2)
    throw UsageError(
        expected_got("maps", "[..., heads, tokens, tokens] with two tokens or more", shape_text(maps.sizes())));
  const at::Tensor later = maps.to(at::kDouble).narrow(-2, 1, maps.size(-1) - 1);
  // One head against all others at a time: pairs of maps would need the square of the memory.
  std::vector<at::Tensor> rows;
  for (std::int64_t head = 0; head < maps.size(-3); ++head)
    rows.push_back((later - later.narrow(-3, head, 1)).abs().sum(-1).mean(-1) / 2);
  return at::stack(rows, -2);
}

at::Tensor mean_head_distance(const at::Tensor& distances) {
  const auto heads = static_cast<double>(distances.size(-1));
  return distances.sum({-2, -1}) / (heads * (heads - 1));
}

}  // namespace cogwheel::interpret
