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

// Of a query, the keys that it sees, [first, query], and how many it keeps.
struct SeenKeys {
  std::int64_t first, count, kept;
};

SeenKeys seen_keys(std::int64_t query, std::int64_t tokens, double share, std::int64_t window) {
  const std::int64_t most = window > 0 ? std::min(tokens, window) : tokens, count = std::min(query + 1, most);
  // A share such as 0.1 of 10 keys is one, whatever its rounding.
  const auto room = static_cast<std::int64_t>(std::ceil(share * static_cast<double>(most) - 1e-9));
  return {query + 1 - count, count, std::clamp<std::int64_t>(room, 1, count)};
}

at::Tensor newest_of(const at::Tensor& maps, double share, std::int64_t window) {
  at::Tensor keeps = at::zeros(maps.sizes(), at::kBool);
  for (std::int64_t query = 0; query < maps.size(-1); ++query) {
    const std::int64_t kept = seen_keys(query, maps.size(-1), share, window).kept;
    keeps.select(-2, query).narrow(-1, query + 1 - kept, kept).fill_(true);
  }
  return keeps;
}

at::Tensor heaviest_of(const at::Tensor& sizes, double share, std::int64_t window) {
  at::Tensor keeps = at::zeros(sizes.sizes(), at::kBool);
  for (std::int64_t query = 0; query < sizes.size(-1); ++query) {
    const SeenKeys seen = seen_keys(query, sizes.size(-1), share, window);
    const at::Tensor row = sizes.select(-2, query).narrow(-1, seen.first, seen.count);
    const at::Tensor places = std::get<1>(row.topk(seen.kept, -1));
    keeps.select(-2, query).narrow(-1, seen.first, seen.count).scatter_(-1, places, true);
  }
  return keeps;
}

at::Tensor accumulated_of(const at::Tensor& sizes, double share, std::int64_t window) {
  at::Tensor keeps = at::zeros(sizes.sizes(), at::kBool);
  at::Tensor sums = at::zeros_like(sizes.select(-2, 0));  // [..., N], −∞ of what was dropped
  for (std::int64_t query = 0; query < sizes.size(-1); ++query) {
    const SeenKeys seen = seen_keys(query, sizes.size(-1), share, window);
    sums = sums + sizes.select(-2, query);
    const std::int64_t recent = (seen.kept + 1) / 2, older = seen.count - recent, heavy = seen.kept - recent;
    at::Tensor row = keeps.select(-2, query);
    row.narrow(-1, query + 1 - recent, recent).fill_(true);
    if (older == 0) continue;
    const at::Tensor of_older = sums.narrow(-1, seen.first, older);
    const auto [largest, places] = of_older.topk(heavy, -1);
    row.narrow(-1, seen.first, older).scatter_(-1, places, largest > -std::numeric_limits<double>::infinity());
    const at::Tensor dropped = row.narrow(-1, seen.first, older).logical_not();
    of_older.masked_fill_(dropped, -std::numeric_limits<double>::infinity());
  }
  return keeps;
}

}  // namespace

at::Tensor with_kept_keys(const at::Tensor& maps, KeptKeys kept, double share, bool renormalised, std::int64_t window) {
  const torch::NoGradGuard no_gradient;
  if (maps.dim() < 2 || maps.size(-1) != maps.size(-2))
    throw UsageError(expected_got("attention maps", "[..., tokens, tokens]", shape_text(maps.sizes())));
  if (!(share > 0 && share <= 1)) throw UsageError(expected_got("share of the keys", "above 0, up to 1", "another"));
  const at::Tensor sizes = maps.abs();
  const at::Tensor keeps = kept == KeptKeys::newest     ? newest_of(maps, share, window)
                           : kept == KeptKeys::heaviest ? heaviest_of(sizes, share, window)
                                                        : accumulated_of(sizes, share, window);
  const at::Tensor left = maps.masked_fill(keeps.logical_not(), 0);
  if (!renormalised) return left;
  const at::Tensor before = sizes.sum(-1, true), after = left.abs().sum(-1, true);
  return left *
         at::where(after > 0, before / after.clamp_min(std::numeric_limits<float>::min()), at::zeros_like(after));
}

}  // namespace cogwheel::interpret
