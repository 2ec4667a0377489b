// Mechanisms with a state, of texts whose tokens are cut over ranks: local parts in, local parts out.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "cogwheel/distributed/exchanges.h"
#include "cogwheel/ops/recurrent/recurrent.h"

namespace cogwheel::distributed {

// Query, key, value and every parameter that has tokens are of the tokens of this rank; other parameters, cu_seqlens
// and the initial state are of the whole text and alike on all ranks, as is the state after its last token, which all
// get.
//
//   heads  each rank computes some heads of all tokens, between two exchanges; ranks divide the heads
//   chain  each computes its stretches from the state before them, which the rank before sends: heads follow each other
//          through the stretches, so that ranks work at once. States travel alone; not for packed sequences, nor where
//          every token sees all
//   auto   chain where it can, which sends less and was the faster one, else heads
//
// Gradients of what ranks share are each rank's own part, but that of the initial state, which the rank of the first
// token has. It does not ask whether ranks call alike (expect_alike does). Throws c10::ValueError as ops::recurrent,
// and for tokens or heads that do not divide; LostRanks.
std::tuple<at::Tensor, std::vector<at::Tensor>> recurrent(const CutRanks& ranks, std::string_view method,
                                                          const std::optional<at::Tensor>& query,
                                                          const std::optional<at::Tensor>& key, const at::Tensor& value,
                                                          std::string_view mechanism,
                                                          const ops::RecurrentOptions& options);

}  // namespace cogwheel::distributed
