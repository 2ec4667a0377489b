// An embedding of which each rank that shares heads holds the rows of some tokens.
#pragma once
#include <ATen/core/Tensor.h>

#include "cogwheel/nn/ranks/shared_pass.h"

namespace cogwheel::nn {

// own [vocabulary / ranks, width]: this rank's share of the rows; tokens [...] int64, alike on all ranks, on its device
// → [..., width] of all, alike on all ranks.
at::Tensor embedded_rows_of_ranks(const at::Tensor& own, const at::Tensor& tokens, const SharedHeads& ranks);

// Where the tokens [...] are among the rows of this rank's share, `rows` of them, and whether they are; elsewhere, any
// row.
struct PlacesInShare {
  at::Tensor rows, are_own;
};
PlacesInShare places_in_share(const at::Tensor& tokens, std::int64_t rows, const SharedHeads& ranks);

}  // namespace cogwheel::nn
