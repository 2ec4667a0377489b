#include "cogwheel/interpret/kept_keys.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/shape_text.h"

namespace cogwheel::interpret {
namespace {

at::Tensor newest_of(const at::Tensor& sizes, std::int64_t room) {
  return at::ones({sizes.size(-1), sizes.size(-1)}, sizes.options().dtype(at::kBool))
      .tril()
      .triu(1 - room)
      .expand(sizes.sizes());
}

// A hidden key weighs nothing, and is chosen where no other is left.
at::Tensor heaviest_of(const at::Tensor& sizes, std::int64_t room) {
  return at::zeros_like(sizes, at::kBool).scatter_(-1, std::get<1>(sizes.topk(room, -1)), true);
}

// In steps that are each of one query: on the host.
at::Tensor accumulated_of(const at::Tensor& sizes, std::int64_t room, std::int64_t window) {
  constexpr double gone = -std::numeric_limits<double>::infinity();
  at::Tensor keeps = at::zeros_like(sizes, at::kBool);
  const at::Tensor sums = at::zeros_like(sizes.select(-2, 0));  // [..., N], −∞ of what was dropped
  for (std::int64_t query = 0; query < sizes.size(-1); ++query) {
    const std::int64_t seen = window > 0 ? std::min(query + 1, window) : query + 1, first = query + 1 - seen;
    const std::int64_t kept = std::min(room, seen), newest = (kept + 1) / 2, older = seen - newest;
    sums.add_(sizes.select(-2, query));
    const at::Tensor row = keeps.select(-2, query);
    row.narrow(-1, query + 1 - newest, newest).fill_(true);
    if (older == 0) continue;
    const at::Tensor of_older = sums.narrow(-1, first, older), keeps_older = row.narrow(-1, first, older);
    const auto [largest, places] = of_older.topk(kept - newest, -1);
    keeps_older.scatter_(-1, places, largest > gone);
    of_older.masked_fill_(keeps_older.logical_not(), gone);
  }
  return keeps;
}

}  // namespace

at::Tensor with_kept_keys(const at::Tensor& maps, KeptKeys kept, double share, bool renormalised, std::int64_t window) {
  const torch::NoGradGuard no_gradient;
  if (maps.dim() < 2 || maps.size(-1) != maps.size(-2))
    throw UsageError(expected_got("attention maps", "[..., tokens, tokens]", shape_text(maps.sizes())));
  if (!(share > 0 && share <= 1)) throw UsageError(expected_got("share of the keys", "above 0, up to 1", "another"));
  if (share == 1) return maps;
  const std::int64_t tokens = window > 0 ? std::min(maps.size(-1), window) : maps.size(-1);
  // A share such as 0.1 of 10 keys is one, whatever its rounding.
  const auto room =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(share * static_cast<double>(tokens) - 1e-9)));
  const at::Tensor sizes = maps.abs();
  const at::Tensor keeps = kept == KeptKeys::newest     ? newest_of(sizes, room)
                           : kept == KeptKeys::heaviest ? heaviest_of(sizes, room)
                                                        : accumulated_of(sizes.cpu(), room, window).to(sizes.device());
  const at::Tensor left = maps.masked_fill(keeps.logical_not(), 0);
  if (!renormalised) return left;
  const at::Tensor before = sizes.sum(-1, true), after = left.abs().sum(-1, true);
  return left *
         at::where(after > 0, before / after.clamp_min(std::numeric_limits<float>::min()), at::zeros_like(after));
}

}  // namespace cogwheel::interpret
