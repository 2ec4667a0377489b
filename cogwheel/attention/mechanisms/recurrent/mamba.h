// Mamba, a selective state space.
//
//   S_t = exp(Δ_t ∘ a) ∘ S_{t-1} + k_t (Δ_t ∘ v_t)ᵀ, o_t = scale · S_tᵀ q_t + skip ∘ v_t
//   Gu, Dao, "Mamba: Linear-Time Sequence Modeling with Selective State Spaces" (2023), whose B_t is k, C_t is q, D is
//   skip, and whose channels are the columns of S. The paper has one head; heads here are groups of channels with keys
//   and queries of their own. It states the exact discretisation of B, (Δa)⁻¹ (exp(Δa) − 1) Δ B; Δ B, as here, is what
//   its code computes. `scale`, which it lacks, is 1 unless given.
#pragma once
#include "cogwheel/attention/mechanisms/recurrent_contract.h"

namespace cogwheel {

struct Mamba {
  static constexpr RecurrentParameter parameters[]{
      {"delta", "BHNV", Values::at_least_0},
      {"a", "HDV|DV", Values::below_0},
      {"skip", "HV|V", Values::any, false},
  };
  static constexpr RecurrentLaw law{
      .name = "mamba",
      .title = "Mamba",
      .walks = Walks::elements,
      .parameters = parameters,
      .formula = "S_t = exp(Δ_t ∘ a) ∘ S_{t-1} + k_t (Δ_t ∘ v_t)ᵀ, o_t = S_tᵀ q_t + skip ∘ v_t",
      .citation = "Gu, Dao, Mamba: Linear-Time Sequence Modeling with Selective State Spaces (2023)",
  };
};

}  // namespace cogwheel
