// Mechanisms with a state, and the walk over tokens that they are made of.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/string_view.h>

#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "cogwheel/mechanisms/recurrent_contract.h"
#include "cogwheel/ops/attention.h"

namespace cogwheel {

// What a call takes beside query, key and value.
struct RecurrentOptions {
  std::optional<double> scale = std::nullopt;  // 1/√D unless given
  std::vector<at::Tensor> initial_state = {};  // none, S, or S and z where normalised
  MechanismParameters parameters = {};         // the law's own tensors by name
  std::string_view feature_map = "identity";
  bool normalize = false;
};

// The output [B, H, N, Dv], and S [B, H, D, Dv] after the last token, with z [B, H, D] where normalised. Without a key
// for a law that makes its own.
std::tuple<at::Tensor, std::vector<at::Tensor>> recurrent(const at::Tensor& query, const std::optional<at::Tensor>& key,
                                                          const at::Tensor& value, std::string_view mechanism,
                                                          const RecurrentOptions& options);

namespace operators {

// S_t = A_t ∘ S_{t−1} + k_t v_tᵀ, o_t = scale · S_tᵀ q_t with the transition of `mechanism`, whose gate is given unless
// it has none: the output and the last state. float32 or float64 alike.
std::tuple<at::Tensor, at::Tensor> token_walk(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                              const std::optional<at::Tensor>& gate,
                                              const std::optional<at::Tensor>& initial_state,
                                              c10::string_view mechanism, double scale);

// S'_t = α_t ∘ S_{t−1}, S_t = S'_t + β_t k_t (v_t − S'_tᵀ k_t)ᵀ, o_t = scale · S_tᵀ q_t with log α [B, H, N] or
// [B, H, N, D], or α = 1, and β [B, H, N] in 0…2: the output and the last state. float32 or float64 alike.
std::tuple<at::Tensor, at::Tensor> delta_walk(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                              const at::Tensor& beta, const std::optional<at::Tensor>& log_decay,
                                              const std::optional<at::Tensor>& initial_state, double scale);

}  // namespace operators
}  // namespace cogwheel
