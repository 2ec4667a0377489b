// Attention of a rank's own queries over the keys of all ranks, by row maps, some heads at a time: their keys and
// values are gathered, used and dropped, in backward again, and the next ones travel meanwhile. A row is computed from
// the same keys as by one rank. Beside what a rank has of the text, memory is that of the heads that
// are gathered at once: about the size of its own keys and values, or, where that is more, one head of one batch entry
// or about a megabyte.
#pragma once
#include <string>
#include <vector>

#include "cogwheel/distributed/exchanges.h"
#include "cogwheel/ops/pairwise/pairwise_pass.h"

namespace cogwheel::distributed {

// How keys and values of all tokens are gathered, one piece while the one before is used: some heads of some batch
// entries.
struct GatheredPieces {
  std::int64_t heads = 1, entries = 1;  // of a piece, but the last ones
  std::int64_t count = 0;
};

// For so many bytes of all ranks: about as many pieces as there are ranks, backward twice as many of half the size, as
// far as value heads and batch can be divided, but none that is much smaller than a megabyte.
GatheredPieces gathered_pieces(std::int64_t bytes, std::int64_t ranks, std::int64_t value_heads, std::int64_t batch,
                               bool backward);

// Throws c10::ValueError for options that contradict each other only where tokens are cut.
class GatheredKeys : public ops::PairwisePass {
 public:
  explicit GatheredKeys(CutRanks ranks) : ranks_(std::move(ranks)) {}

  ops::PairwiseOptions options(const Mechanism& mechanism, const at::Tensor& query, const at::Tensor& key,
                               const ops::AttentionOptions& given, std::string_view causal_mask) override;
  // All: which of a rank's own keys no query of any rank sees is not looked for.
  ops::PairwiseOptions seen(const ops::PairwiseOptions& options) override;
  ops::PairwiseOutputs pairwise(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                const at::Tensor& parameters, std::string_view map, const ops::PairwiseOptions& options,
                                const ops::WantedOutputs& wanted) override;
  at::Tensor mixture_statistics(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                const at::Tensor& parameters, const ops::MixtureMembers& members, std::string_view map,
                                const ops::PairwiseOptions& options, bool argmax) override;

  // Queries of a rank that lie one after another, and the options that say what they see of all keys.
  struct Rows {
    Stretch stretch;
    ops::PairwiseOptions sight;
  };

 private:
  CutRanks ranks_;
  std::vector<Rows> rows_;
};

}  // namespace cogwheel::distributed
