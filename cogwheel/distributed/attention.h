// Attention of texts whose tokens are cut over ranks: local parts in, local parts out.
//
// Query, key and value of a rank have the tokens that its layout gives it (sequence_cut.h). So have those options and
// parameters that have a row for each query: bias, energy_bias and ranges, local_centers, and λ where it is one for
// each query; their columns are all keys, in the order of the text. All else, such as key_lengths, first_positions and
// cu_seqlens, is of the whole text and alike on all ranks. Where N ≠ M, the last query still sees the last key.
//
// Gradients of what ranks share (weights of scores, parameters, a bias without rows) are each rank's own part: their
// sum over ranks is the gradient. Second derivatives are not there.
#pragma once
#include <ATen/core/Tensor.h>

#include <string_view>
#include <tuple>

#include "cogwheel/distributed/exchanges.h"
#include "cogwheel/ops/pairwise/attention.h"

namespace cogwheel::distributed {

inline constexpr bool ranks_divide_heads(std::int64_t ranks, std::int64_t heads, std::int64_t value_heads) {
  return heads % ranks == 0 && value_heads % ranks == 0;
}

// How ranks share the work.
//   gather  each computes its own queries over the keys of all ranks, some heads at a time (gathered_keys.h): row maps
//   heads   each computes some heads of all tokens, between two exchanges: every mechanism, and heads that ranks divide
//   auto    heads where ranks divide them, else gather
//
// Every rank calls it, with tensors of the same sizes, of which it asks nothing (expect_alike does). Dropout drops what
// one rank would drop for the same seed. Throws c10::ValueError as ops::attention, and for tokens or heads that do not
// divide; LostRanks.
at::Tensor attention(const CutRanks& ranks, std::string_view method, const at::Tensor& query, const at::Tensor& key,
                     const at::Tensor& value, std::string_view mechanism, const ops::AttentionOptions& options);

// And statistics [12, B, H, N] of the rows of this rank, as ops::attention_statistics has them: of keys of the text.
std::tuple<at::Tensor, at::Tensor> attention_statistics(const CutRanks& ranks, std::string_view method,
                                                        const at::Tensor& query, const at::Tensor& key,
                                                        const at::Tensor& value, bool argmax,
                                                        std::string_view mechanism,
                                                        const ops::AttentionOptions& options);

}  // namespace cogwheel::distributed
