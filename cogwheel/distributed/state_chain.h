// The stretches of a text one after the other, each from the state that the one before left on another rank.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "cogwheel/attention/mechanisms/recurrent_contract.h"
#include "cogwheel/distributed/exchanges.h"
#include "cogwheel/ops/recurrent/recurrent.h"

namespace cogwheel::distributed {

// The dimensions of a law's tensor, a letter each (recurrent_contract.h).
std::string_view axes_of(const RecurrentLaw& law, std::string_view parameter, const at::Tensor& tensor);

// Causal, without packed sequences. Some heads at a time go through the stretches, one behind the other: with C of them
// and P ranks, contiguous stretches take C + P − 1 turns of a rank's work on one of C.
std::tuple<at::Tensor, std::vector<at::Tensor>> by_state_chain(const CutRanks& ranks, const RecurrentLaw& law,
                                                               const std::optional<at::Tensor>& query,
                                                               const std::optional<at::Tensor>& key,
                                                               const at::Tensor& value,
                                                               const ops::RecurrentOptions& options);

}  // namespace cogwheel::distributed
