// Mechanisms with a state.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "cogwheel/attention/mechanisms/recurrent_contract.h"
#include "cogwheel/ops/pairwise/attention.h"

namespace cogwheel::ops {

// What a call takes beside query, key and value.
struct RecurrentOptions {
  bool causal = true;
  std::optional<double> scale = {};            // 1/√D unless given, 1 for state spaces
  std::optional<at::Tensor> cu_seqlens = {};   // [sequences + 1], of a batch of one; a state per sequence
  std::vector<at::Tensor> initial_state = {};  // none, or all tensors of a state
  MechanismParameters parameters = {};         // the law's own tensors by name
  std::string feature_map = "identity";
  bool normalize = false;
};

// The output [B, H, N, Dv], and the state after the last token: S [B, H, D, Dv], with z [B, H, D] where normalised, and
// m [B, H] for mlstm; K [B, H, D, slots] and V [B, H, slots, Dv] for abc. float32 for 16-bit numbers. Without a key for
// a law that makes its own, without a query for one that has none.
std::tuple<at::Tensor, std::vector<at::Tensor>> recurrent(const std::optional<at::Tensor>& query,
                                                          const std::optional<at::Tensor>& key, const at::Tensor& value,
                                                          std::string_view mechanism, const RecurrentOptions& options);

// What `recurrent` multiplies values by, [B, H, N, N]; [B, H, Dv, N, N] where columns of the state decay apart, whose
// Dv their parameter gives. Computed by the same walk, with the identity as values: time and memory grow with N².
// Refuses initial states and packed sequences.
at::Tensor recurrent_weights(const std::optional<at::Tensor>& query, const std::optional<at::Tensor>& key,
                             std::string_view mechanism, const RecurrentOptions& options);

// The output of `recurrent`, and statistics [12, B, H, N] of the weights of each row, without a derivative, as
// attention_statistics has them; of [B, H, Dv, N] where columns decay apart.
std::tuple<at::Tensor, at::Tensor> recurrent_statistics(const std::optional<at::Tensor>& query,
                                                        const std::optional<at::Tensor>& key, const at::Tensor& value,
                                                        std::string_view mechanism, const RecurrentOptions& options);

}  // namespace cogwheel::ops
