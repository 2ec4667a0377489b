// S4 with a diagonal, real transition.
//
//   S_t = exp(Δ ∘ a) ∘ S_{t-1} + b ∘ (1 v_tᵀ), o_t = scale · (c ∘ S_t)ᵀ 1 + skip ∘ v_t
//   Gu, Goel, Ré, "Efficiently Modeling Long Sequences with Structured State Spaces" (2022), in the diagonal form of Gu
//   et al., "On the Parameterization and Initialization of Diagonal State Space Models" (2022), and real as S4D-Real
//   there: S4's own transition is diagonal plus low rank, and complex. b is as the state meets it: a b of continuous
//   time is to be multiplied by (exp(Δa) − 1) / a first, by whoever wants that. No token chooses anything, so there is
//   neither query nor key, and outputs are a convolution with Σ_d c b exp(Δa)^t. `scale`, which the papers lack, is 1
//   unless given.
#pragma once
#include "cogwheel/attention/mechanisms/recurrent_call.h"

namespace cogwheel {

struct S4 {
  static constexpr RecurrentParameter parameters[]{
      {"delta", "HV", Values::at_least_0}, {"a", "HDV", Values::below_0}, {"b", "HDV"}, {"c", "HDV"},
      {"skip", "HV", Values::any, false},
  };
  static LawOutcome run(const LawCall& call) {
    ElementWalk walk = call.element_walk();
    walk.b = call["b"];
    walk.c = call["c"];
    return call.walked(walk);
  }
  static constexpr RecurrentLaw law{
      .name = "s4",
      .title = "S4",
      .walks = Walks::elements,
      .parameters = parameters,
      .has_query = false,
      .has_key = false,
      .run = run,
      .formula = "S_t = exp(Δ ∘ a) ∘ S_{t-1} + b ∘ (1 v_tᵀ), o_t = Σ_d c ∘ S_t + skip ∘ v_t",
      .citation = "Gu, Goel, Ré, Efficiently Modeling Long Sequences with Structured State Spaces (2022)",
  };
};

}  // namespace cogwheel
