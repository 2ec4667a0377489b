// The walk over the tokens by a delta rule (attention/kernels/recurrent/recurrent.h), as an operator.
#pragma once
#include <ATen/core/Tensor.h>

#include <tuple>

#include "cogwheel/ops/support/bundle.h"

namespace cogwheel::ops {

// S'_t = α_t ∘ S_{t−1}, S_t = S'_t + β_t k_t (v_t − S'_tᵀ k_t)ᵀ, o_t = scale · S_tᵀ q_t. float32 or float64 alike.
struct DeltaWalk {
  at::Tensor query, key, value;  // [B, H, N, D], alike, [B, H, N, Dv]
  at::Tensor beta;               // [B, H, N], in 0…2
  OptionalTensor log_decay;      // log α, [B, H, N] or [B, H, N, D]; none: α = 1
  OptionalTensor initial_state;  // [sequences, H, D, Dv]
  OptionalTensor cu_seqlens;     // [sequences + 1] int64 on the host, of a batch of one; else B sequences
  double scale = 1;
};

template <>
struct Bundle<DeltaWalk> {
  static constexpr std::tuple members{
      Member<DeltaWalk, at::Tensor>{"query", &DeltaWalk::query},
      Member<DeltaWalk, at::Tensor>{"key", &DeltaWalk::key},
      Member<DeltaWalk, at::Tensor>{"value", &DeltaWalk::value},
      Member<DeltaWalk, at::Tensor>{"beta", &DeltaWalk::beta},
      Member<DeltaWalk, OptionalTensor>{"log_decay", &DeltaWalk::log_decay},
      Member<DeltaWalk, OptionalTensor>{"initial_state", &DeltaWalk::initial_state},
      Member<DeltaWalk, OptionalTensor>{"cu_seqlens", &DeltaWalk::cu_seqlens},
      Member<DeltaWalk, double>{"scale", &DeltaWalk::scale},
  };
};

// The output [B, H, N, Dv] and the last states [sequences, H, D, Dv].
std::tuple<at::Tensor, at::Tensor> delta_walk(const DeltaWalk& walk);

}  // namespace cogwheel::ops
