// cosFormer.
//
//   S_t = Σ_j cos(π (t - j) / (2 horizon)) φ(k_j) v_jᵀ, o_t = S_tᵀ φ(q_t) / (z_t·φ(q_t)), φ = ReLU
//   Qin et al., "cosFormer: Rethinking Softmax in Attention" (2022).
//
// The cosine of a difference is the product of two vectors of length 2, so keys and queries of width D become ones of
// width 2 D. The state turns with the text: it is that of the last token's position, and no position is stored. The
// paper has positions up to `horizon`; beyond it weights turn negative.
#pragma once
#include <numbers>

#include "cogwheel/attention/mechanisms/recurrent_call.h"

namespace cogwheel {

struct Cosformer {
  static constexpr RecurrentParameter parameters[]{
      {"horizon", "", Values::above_0},
  };
  static constexpr StatePart state[]{{"S", "2DV"}, {"z", "2D"}};
  static LawOutcome run(const LawCall& call) {
    const LawTensor per_token = (std::numbers::pi / 2) / call["horizon"], angles = per_token * call.positions();
    const LawTensor cosines = call.computed(cos(angles)), sines = call.computed(sin(angles));
    LawWalk walk = call.walk();
    walk.query = turned(call.query, cosines, sines, true);
    walk.key = turned(call.key, cosines, sines, true);
    LawOutcome outcome = call.walked(walk);
    for (LawTensor& part : outcome.state) {  // to the angle 0 of the next call's positions
      const LawTensor angle = for_states(per_token * call.lengths(), part);
      const LawTensor cosine = call.computed(cos(angle)), sine = call.computed(sin(angle));
      const LawTensor even = first_half(part), odd = second_half(part);
      part = join_halves(cosine * even + sine * odd, cosine * odd - sine * even);
    }
    return outcome;
  }
  static constexpr RecurrentLaw law{
      .name = "cosformer",
      .title = "cosFormer",
      .features = Features::own,
      .normalizer = Normalizer::always,
      .parameters = parameters,
      .run = run,
      .state = state,
      .over_all = true,
      .formula =
          "o_t = Σ_j cos(π (t - j) / (2 horizon)) (φ(q_t)·φ(k_j)) v_j / Σ_j cos(π (t - j) / (2 horizon)) φ(q_t)·φ(k_j)",
      .citation = "Qin et al., cosFormer: Rethinking Softmax in Attention (2022)",
  };
};

}  // namespace cogwheel
