// The scores of attention: what is made of a query and a key before a row map sees s.
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
// Hq are the query heads, sub-heads included: each has weights of its own. Any row map reads any score, but norm, whose
// score is always the cosine. Kernels know two: the product of what is left of queries and keys, and the additive score
// of them, to which a concatenated one comes down, W [q; k] = W₁ q + W₂ k.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

#include "cogwheel/mechanisms/catalogue.h"
#include "cogwheel/ops/attention.h"
#include "cogwheel/ops/pairwise.h"

namespace cogwheel {

// Queries, keys and values as a kernel takes them, and what is left of the score.
struct ScoredHeads {
  at::Tensor query, key, value;
  double scale;                            // as given, or the score's own default
  std::optional<at::Tensor> score_weight;  // v [Hq, D], of an additive score; none of a product
};

// Throws ValueError for a score that does not exist or that the mechanism does not read, and for weights that are
// missing, too many or wrong in shape, dtype or device.
void check_score(const Mechanism& mechanism, const at::Tensor& query, const at::Tensor& key,
                 const AttentionOptions& options);

// Whether the score needs queries and keys of one width.
bool needs_one_width(std::string_view score);

// For what check_score let pass; throws ValueError for a scale that is not finite. `seen` says what is hidden: keys
// that nobody sees reach no gradient, whatever they hold. Differentiable in everything.
ScoredHeads score_heads(const Mechanism& mechanism, const at::Tensor& query, const at::Tensor& key,
                        const at::Tensor& value, const AttentionOptions& options, const PairwiseOptions& seen);

}  // namespace cogwheel
