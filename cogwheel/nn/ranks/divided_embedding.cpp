#include "cogwheel/nn/ranks/divided_embedding.h"

#include <torch/types.h>

#include <string>

#include "cogwheel/core/error.h"

namespace cogwheel::nn {

PlacesInShare places_in_share(const at::Tensor& tokens, std::int64_t rows, const SharedHeads& ranks) {
  const at::Tensor places = tokens - ranks.rank() * rows;
  return {places.clamp(0, rows - 1), places.ge(0).logical_and(places.lt(rows))};
}

at::Tensor embedded_rows_of_ranks(const at::Tensor& own, const at::Tensor& tokens, const SharedHeads& ranks) {
  if (const std::int64_t vocabulary = own.size(0) * ranks.count(); tokens.is_cpu() && tokens.numel() > 0)
    if (const auto least = tokens.min().item<std::int64_t>(), most = tokens.max().item<std::int64_t>();
        least < 0 || most >= vocabulary)  // on a device to look at them would stop it
      throw Error(expected_got("tokens", "0 to " + std::to_string(vocabulary - 1),
                               std::to_string(least) + " to " + std::to_string(most)));
  const PlacesInShare places = places_in_share(tokens, own.size(0), ranks);
  const at::Tensor rows = at::embedding(own, places.rows);
  return ranks.sum(at::where(places.are_own.unsqueeze(-1), rows, at::zeros({}, rows.options())), "embedded tokens");
}

}  // namespace cogwheel::nn
