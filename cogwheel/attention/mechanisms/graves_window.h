// Graves' soft window: a mixture of bell curves over the positions of an encoded source.
//
//   φ(t, u) = Σ_k α_t^k exp(−β_t^k (κ_t^k − u)²),   w_t = Σ_{u=1…U} φ(t, u) v_u
//   Graves, "Generating Sequences With Recurrent Neural Networks" (2013), equations 46 to 51.
//
// Weights come from positions alone, counted from 1, and are not normalised: what is far from every centre gets
// nothing. A network makes α = exp(α̂), β = exp(β̂) and κ_t = κ_{t−1} + exp(κ̂) of its state, so that a centre never moves
// back. κ is the mean of a Gaussian of variance 1/(2β). φ(t, U + 1), one position beyond the source, is for the stop
// rule of handwriting synthesis: a sample ends where it exceeds every other φ(t, u).
//
// Domain: β > 0 and α ≥ 0. Gradients of one component with e = exp(−β d²), d = κ − u:
//   ∂φ/∂α = e,   ∂φ/∂β = −α d² e,   ∂φ/∂κ = −2 α β d e
#pragma once
#include <string_view>

#include "cogwheel/attention/mechanisms/lane.h"

namespace cogwheel {

struct GravesWindow {
  static constexpr std::string_view name = "graves_window", title = "Graves' window",
                                    formula = "φ(u) = Σ_k α_k exp(−β_k (κ_k − u)²)",
                                    citation = "Graves, Generating Sequences With Recurrent Neural Networks (2013)";

  // e, with `offset` κ − u.
  template <class V>
  static constexpr V bell(V beta, V offset) {
    return lane::exp(-(beta * (offset * offset)));
  }
};

}  // namespace cogwheel
