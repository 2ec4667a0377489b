// The walk over the tokens of state spaces (attention/kernels/recurrent/state_space.h), as an operator.
#pragma once
#include <ATen/core/Tensor.h>

#include <tuple>

#include "cogwheel/ops/support/bundle.h"

namespace cogwheel::ops {

// With queries and keys, of every token, and Δ of every token: S_t = exp(Δ_t ∘ a) ∘ S_{t−1} + k_t (Δ_t ∘ v_t)ᵀ,
// o_t = scale · S_tᵀ q_t + skip ∘ v_t. With b and c in their places, and Δ of the head:
// S_t = exp(Δ ∘ a) ∘ S_{t−1} + b ∘ 1v_tᵀ, o_t = scale · (c ∘ S_t)ᵀ 1 + skip ∘ v_t. float32 or float64 alike.
struct StateSpace {
  at::Tensor value;              // [B, H, N, Dv]
  at::Tensor delta;              // at least 0; [B, H, N, Dv], or beside b and c [H, Dv]
  at::Tensor a;                  // below 0; [H, D, Dv], or beside queries also [D, Dv]
  OptionalTensor query, key;     // [B, H, N, D]
  OptionalTensor b, c;           // [H, D, Dv]
  OptionalTensor skip;           // [H, Dv], or beside queries also [Dv]
  OptionalTensor initial_state;  // [sequences, H, D, Dv]
  OptionalTensor cu_seqlens;     // [sequences + 1] int64 on the host, of a batch of one; else B sequences
  double scale = 1;
};

template <>
struct Bundle<StateSpace> {
  static constexpr std::tuple members{
      Member<StateSpace, at::Tensor>{"value", &StateSpace::value},
      Member<StateSpace, at::Tensor>{"delta", &StateSpace::delta},
      Member<StateSpace, at::Tensor>{"a", &StateSpace::a},
      Member<StateSpace, OptionalTensor>{"query", &StateSpace::query},
      Member<StateSpace, OptionalTensor>{"key", &StateSpace::key},
      Member<StateSpace, OptionalTensor>{"b", &StateSpace::b},
      Member<StateSpace, OptionalTensor>{"c", &StateSpace::c},
      Member<StateSpace, OptionalTensor>{"skip", &StateSpace::skip},
      Member<StateSpace, OptionalTensor>{"initial_state", &StateSpace::initial_state},
      Member<StateSpace, OptionalTensor>{"cu_seqlens", &StateSpace::cu_seqlens},
      Member<StateSpace, double>{"scale", &StateSpace::scale},
  };
};

// A view with the sizes, dtype and device of the queries that there are none of beside b and c, for checks alone.
at::Tensor like_a_query(const at::Tensor& value, const at::Tensor& a);

// The output [B, H, N, Dv] and the last states [sequences, H, D, Dv].
std::tuple<at::Tensor, at::Tensor> state_space(const StateSpace& space);

}  // namespace cogwheel::ops
