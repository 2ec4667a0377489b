// The scores of attention: s of a query and a key, before the row map.
//
//   dot       s = scale · q·k                scale 1/√D unless given
//   general   s = scale · q·W k              score_weight W [Hq, D, Dk]; scale 1/√Dk unless given
//   cosine    s = scale · q·k / (|q| |k|)    scale 1 unless given
//   additive  s = scale · v·tanh(q + k)      score_weight v [Hq, D]; scale 1 unless given
//   concat    s = scale · v·tanh(W [q; k])   score_projection W [Hq, Da, D + Dk], score_weight v [Hq, Da]; scale 1
//   Luong et al., "Effective Approaches to Attention-based Neural Machine Translation" (2015), section 3.1, for dot,
//   general and concat; Bahdanau et al., "Neural Machine Translation by Jointly Learning to Align and Translate"
//   (2014), for additive, whose W s and U h are q and k here.
//
// Hq are the query heads, sub-heads included: each has its own weights. Any row map takes any score, except norm, whose
// score is always the cosine. Kernels have two, the product and the additive score of transformed queries and keys; a
// concatenated score is an additive one, since W [q; k] = W₁ q + W₂ k.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/ops/pairwise/attention.h"
#include "cogwheel/ops/pairwise/pairwise.h"

namespace cogwheel::ops {

// Queries, keys and values transformed for a kernel, and the remaining parts of the score.
struct ScoredHeads {
  at::Tensor query, key, value;
  double scale;                            // as given, or the score's default
  std::optional<at::Tensor> score_weight;  // v [Hq, D], of an additive score; none of a product
};

std::vector<std::string> score_names();

// Throws ValueError for a score that does not exist or that the mechanism does not read, and for weights that are
// missing, too many or wrong in shape, dtype or device.
void check_score(const Mechanism& mechanism, const at::Tensor& query, const at::Tensor& key,
                 const AttentionOptions& options);

// Whether the score needs queries and keys of one width.
bool needs_one_width(std::string_view score);

// After check_score. Throws ValueError for a scale that is not finite. `seen` says which keys are visible: keys that no
// query sees get no gradient, whatever their values. Differentiable in everything.
ScoredHeads score_heads(const Mechanism& mechanism, const at::Tensor& query, const at::Tensor& key,
                        const at::Tensor& value, const AttentionOptions& options, const PairwiseOptions& seen);

}  // namespace cogwheel::ops
