// What an attention call computes its row maps by. The base is this process, on all keys; ranks that have a cut text
// put their own in its place (distributed/gathered_keys.h), below scores, mixtures and parameters, which stay as they
// are.
#pragma once
#include <string_view>
#include <tuple>

#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/ops/pairwise/attention.h"
#include "cogwheel/ops/pairwise/pairwise.h"

namespace cogwheel::ops {

class PairwisePass {
 public:
  virtual ~PairwisePass() = default;

  // What the call's options say, checked, but for its scale and the weight of its score; asked once, before the rest.
  // `causal_mask` is the name of the mask where the call is causal.
  virtual PairwiseOptions options(const Mechanism& mechanism, const at::Tensor& query, const at::Tensor& key,
                                  const AttentionOptions& given, std::string_view causal_mask);
  // Which keys any query sees, of keys as they are given to this pass.
  virtual PairwiseOptions seen(const PairwiseOptions& options) { return options; }

  virtual PairwiseOutputs pairwise(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                   const at::Tensor& parameters, std::string_view map, const PairwiseOptions& options,
                                   const WantedOutputs& wanted);
  virtual at::Tensor mixture_statistics(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                        const at::Tensor& parameters, const MixtureMembers& members,
                                        std::string_view map, const PairwiseOptions& options, bool argmax);
};

// `attention` and `attention_statistics`, by another pass; of mechanisms that are row maps.
at::Tensor attention_by(PairwisePass& pass, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                        std::string_view mechanism, const AttentionOptions& options);
std::tuple<at::Tensor, at::Tensor> attention_statistics_by(PairwisePass& pass, const at::Tensor& query,
                                                           const at::Tensor& key, const at::Tensor& value, bool argmax,
                                                           std::string_view mechanism, const AttentionOptions& options);

}  // namespace cogwheel::ops
