// Attention of which only some keys are left for each query, as with a cache that forgets: the newest, those that the
// query weighs most, or those that all queries so far weighed most. Zhang et al., "H2O: Heavy-Hitter Oracle for
// Efficient Generative Inference of Large Language Models" (2023).
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace cogwheel::interpret {

enum class KeptKeys {
  newest,
  heaviest,    // the largest |a| of the query itself, whatever was kept before: no cache can know them
  accumulated  // half of them the newest, of the others the largest Σ |a| over the queries so far; what is dropped does
               // not come back, as in H2O
};

// maps [..., N, N] of a causal layer → the same with 0 for what is dropped. Each query keeps ⌈share · N⌉ of the keys
// that it sees, and all while it sees no more: a cache of so many. Of a layer with a `window` N is that at most. A
// query itself is always among the newest. `renormalised`: what is left of a row is scaled to the Σ|a| that it had,
// which is what softmax and Cog give of the keys that are left.
at::Tensor with_kept_keys(const at::Tensor& maps, KeptKeys kept, double share, bool renormalised,
                          std::int64_t window = 0);

}  // namespace cogwheel::interpret
