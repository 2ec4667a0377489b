// The walk over the tokens of mechanisms with a state (attention/kernels/recurrent/recurrent.h), as an operator.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <tuple>

#include "cogwheel/ops/support/bundle.h"

namespace cogwheel::ops {

// S_t = A_t ∘ S_{t−1} + k_t v_tᵀ, o_t = scale · S_tᵀ q_t. float32 or float64 alike.
struct TokenWalk {
  at::Tensor query, key, value;     // [B, H, N, D], alike, [B, H, N, Dv]
  OptionalTensor gate;              // of the transition; none for "none"
  OptionalTensor value_gate;        // [B, H, N, Dv], log decays of the state's columns: "none" and "per_channel"
  OptionalTensor initial_state;     // [sequences, H, D, Dv]
  OptionalTensor cu_seqlens;        // [sequences + 1] int64 on the host, of a batch of one; else B sequences
  std::string transition = "none";  // transition_names
  bool reads_before = false;        // o_t = scale · S_{t−1}ᵀ q_t, for "per_channel"
  double scale = 1;
  // Values have one more column, of ones, and with them states and outputs: what a normaliser divides by. Where a
  // decay is one number per token, or there is none.
  bool counts = false;
};

template <>
struct Bundle<TokenWalk> {
  static constexpr std::tuple members{
      Member<TokenWalk, at::Tensor>{"query", &TokenWalk::query},
      Member<TokenWalk, at::Tensor>{"key", &TokenWalk::key},
      Member<TokenWalk, at::Tensor>{"value", &TokenWalk::value},
      Member<TokenWalk, OptionalTensor>{"gate", &TokenWalk::gate},
      Member<TokenWalk, OptionalTensor>{"value_gate", &TokenWalk::value_gate},
      Member<TokenWalk, OptionalTensor>{"initial_state", &TokenWalk::initial_state},
      Member<TokenWalk, OptionalTensor>{"cu_seqlens", &TokenWalk::cu_seqlens},
      Member<TokenWalk, std::string>{"transition", &TokenWalk::transition},
      Member<TokenWalk, bool>{"reads_before", &TokenWalk::reads_before},
      Member<TokenWalk, double>{"scale", &TokenWalk::scale},
      Member<TokenWalk, bool>{"counts", &TokenWalk::counts},
  };
};

// The output [B, H, N, Dv] and the last states [sequences, H, D, Dv]; Dv + 1 with `counts`.
std::tuple<at::Tensor, at::Tensor> token_walk(const TokenWalk& walk);

}  // namespace cogwheel::ops
