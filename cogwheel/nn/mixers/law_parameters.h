// Parameters of a law by their names, and the values that an operator refuses of them. The gates of a run whose weights
// diverge become such values: the run has a loss to record, NaN, where the operator would end it.
#pragma once
#include <ATen/core/Tensor.h>

#include <string_view>

#include "cogwheel/attention/mechanisms/recurrent_contract.h"
#include "cogwheel/ops/pairwise/attention.h"

namespace cogwheel::nn {

// Which the law has.
const RecurrentParameter& parameter_of(const RecurrentLaw& law, std::string_view name);
// Whether each token has a value of its own.
bool of_tokens(const RecurrentParameter& parameter);

// Whether any parameter has a value that the operator refuses; `refuses_whole`: any of those that have one value for
// all tokens.
bool refuses(const RecurrentLaw& law, const ops::MechanismParameters& parameters);
bool refuses_whole(const RecurrentLaw& law, const ops::MechanismParameters& parameters);
// Refused values of tokens become ones that the operator takes: the tokens where they were [B, H, N], undefined for
// none.
at::Tensor without_refused(const RecurrentLaw& law, ops::MechanismParameters& parameters);

}  // namespace cogwheel::nn
