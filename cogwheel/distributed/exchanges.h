// Exchanges of tensors whose tokens are cut over ranks, with derivatives: each has the other, or a sum, for its
// gradient, so that ranks must go back through the same graph.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cogwheel/distributed/group.h"
#include "cogwheel/distributed/sequence_cut.h"

namespace cogwheel::distributed {

// Ranks that have a cut text.
struct CutRanks {
  Group group;
  SequenceCut cut;
};

// Dimensions, from 0, of a tensor.
struct HeadsAndTokens {
  std::int64_t heads = 1, tokens = 2;
};

// A rank's own tokens → all tokens, in their order. The gradient of a token is the sum over ranks, in their order.
at::Tensor all_tokens(const CutRanks& ranks, const at::Tensor& own, std::int64_t dim, const std::string& what);

// The `count` tokens before each of this rank's stretches, in the order of `own`, whose dimension `dim` has its tokens;
// 0 before the first of the text. Throws UsageError for stretches that are shorter.
std::vector<at::Tensor> tokens_before(const CutRanks& ranks, const at::Tensor& own, std::int64_t dim,
                                      std::int64_t count, const std::string& what);
// `own`, a tensor for each of this rank's stretches.
std::vector<at::Tensor> stretches_of(const CutRanks& ranks, const at::Tensor& own, std::int64_t dim);

// All heads of a rank's own tokens → a rank's share of the heads, of all tokens, and back. The ranks divide the heads.
// Small tensors share an exchange (joint_exchange.h).
std::vector<at::Tensor> shares_of_heads(const CutRanks& ranks, const std::vector<at::Tensor>& own,
                                        const HeadsAndTokens& dims, const std::string& what);
at::Tensor share_of_heads(const CutRanks& ranks, const at::Tensor& own, const HeadsAndTokens& dims,
                          const std::string& what);
at::Tensor share_of_tokens(const CutRanks& ranks, const at::Tensor& of_heads, const HeadsAndTokens& dims,
                           const std::string& what);

// Whether each rank gets all of so many bytes and adds them, in one exchange, or adds a share that it then sends to
// all, in two. Of two ranks each sends as many bytes either way; of more, the one exchange sends more.
inline constexpr bool summed_by_all(std::int64_t bytes, std::int64_t ranks) {
  constexpr std::int64_t few = 1 << 18;
  return (ranks - 2) * bytes <= few;
}

// Σ over ranks of what each has of a sum, alike on all, added in float32 or wider; the gradient is the sum of those of
// all ranks, each of which has its own part of the loss.
at::Tensor sum_of_parts(const Group& ranks, const at::Tensor& part, const std::string& what);

// The heads of a tensor that has no tokens, of this rank's share; or of whatever else its dimension is, which the ranks
// divide.
at::Tensor own_heads(const Group& ranks, const at::Tensor& tensor, std::int64_t dim);

}  // namespace cogwheel::distributed
