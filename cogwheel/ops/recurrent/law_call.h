// A call of a law, and what comes of it: the engine's walk as it stands, or what the law's own function makes of it
// (attention/mechanisms/recurrent_call.h), whose operations are ATen's and ours.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>
#include <vector>

#include "cogwheel/attention/mechanisms/recurrent_contract.h"
#include "cogwheel/ops/pairwise/attention.h"

namespace cogwheel::ops {

// Arguments that have been checked. Tensors are in the dtype that is computed in.
struct RecurrentCall {
  const RecurrentLaw& law;
  at::Tensor query, value;  // of a law without queries, a view with the sizes of one (like_a_query)
  std::optional<at::Tensor> key;
  std::string_view features;
  bool causal, normalized;
  double scale;
  std::optional<at::Tensor> cu_seqlens;
  std::vector<at::Tensor> initial_state;
  MechanismParameters parameters;

  std::optional<at::Tensor> parameter(std::string_view name) const;
  at::Tensor mapped(const at::Tensor& x) const;  // by the feature map
  c10::SymInt feature_width() const;             // of what the map makes of a key
  c10::SymInt slots() const;                     // the size of the axes S
};

struct RecurrentOutcome {
  at::Tensor output;
  std::vector<at::Tensor> state;
};

RecurrentOutcome outcome_of_law(const RecurrentCall& call);

}  // namespace cogwheel::ops
