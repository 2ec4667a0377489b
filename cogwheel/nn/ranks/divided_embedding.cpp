#include "cogwheel/nn/ranks/divided_embedding.h"

#include <torch/types.h>

namespace cogwheel::nn {

PlacesInShare places_in_share(const at::Tensor& tokens, std::int64_t rows, const SharedHeads& ranks) {
  const at::Tensor places = tokens - ranks.rank() * rows;
  return {places.clamp(0, rows - 1), places.ge(0).logical_and(places.lt(rows))};
}

at::Tensor embedded_rows_of_ranks(const at::Tensor& own, const at::Tensor& tokens, const SharedHeads& ranks) {
  const PlacesInShare places = places_in_share(tokens, own.size(0), ranks);
  const at::Tensor rows = at::embedding(own, places.rows);
  return ranks.sum(at::where(places.are_own.unsqueeze(-1), rows, at::zeros({}, rows.options())), "embedded tokens");
}

}  // namespace cogwheel::nn
