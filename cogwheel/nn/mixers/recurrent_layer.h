// The layer of a recurrent mechanism: projections of the tokens to what its law takes, the law, and a projection of the
// heads' outputs. What else there is, recurrent_recipe.h says for each mechanism.
//
// Its state has a size of its own (recurrent_state.h), and it has no use for positions: the order of the tokens is all
// that a law knows of them. It always is causal.
#pragma once
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cogwheel/attention/mechanisms/law_options.h"
#include "cogwheel/nn/mixers/causal_convolution.h"
#include "cogwheel/nn/mixers/recurrent_gate.h"
#include "cogwheel/nn/mixers/recurrent_recipe.h"
#include "cogwheel/nn/mixers/token_shift.h"
#include "cogwheel/nn/norm.h"
#include "cogwheel/nn/states/recurrent_state.h"
#include "cogwheel/nn/token_mixer.h"
#include "cogwheel/nn/weights/linear.h"
#include "cogwheel/ops/recurrent/recurrent.h"

namespace cogwheel::nn {

struct RecurrentLayerOptions {
  std::int64_t width = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;  // of keys, 0: width / heads; of values as much, or twice where the paper expands them
  std::string mechanism = "linear_attention";
  std::int64_t layer = 0, layers = 1;            // lower bounds of gates and some initial values depend on the depth
  bool bias = true;                              // of the projections; gates have biases in any case
  bool plain = false;                            // projections and gates alone, instead of the paper's layer
  LawSwitches law_options = {};                  // which options of the law are on
  std::int64_t context = 1;                      // of the model: the horizon of a law that has one
  std::optional<double> head_norm_epsilon = {};  // of a recipe with a norm of heads; that of RMSNorm unless given

  std::int64_t used_head_dim() const { return head_dim == 0 ? width / heads : head_dim; }
};

// Throws UsageError that names the first invalid option.
void check(const RecurrentLayerOptions& options);

class RecurrentLayerImpl : public TokenMixer {
 public:
  explicit RecurrentLayerImpl(const RecurrentLayerOptions& options);

  // Of the context it reads state, packed sequences and hooks: a law has no weights to drop, no positions, and padding
  // at the end is seen by no token before it. The pattern is known to a pass without a state, which has not kept the
  // keys.
  at::Tensor forward(const at::Tensor& x, const ForwardContext& context = {}) override;

  bool has_hook(HookPlace place) const override;
  std::vector<Projection> projections()
      const override;  // none of an inner projection, nor of keys that all heads share
  bool can_decode() const override { return true; }
  // A law with a horizon has no meaning beyond it.
  bool keeps_tokens() const override { return law_.asks_for_number(); }
  std::unique_ptr<LayerState> make_state(std::int64_t batch, std::int64_t capacity) const override;

  void initialize(const WeightInitializer& initializer, const std::string& name, double standard_deviation,
                  double residual_standard_deviation) override;

  // What it is made of, for whoever describes it.
  const RecurrentLaw& law() const { return law_; }
  const RecurrentRecipe& recipe() const { return recipe_; }
  const std::vector<RecurrentGate>& gates() const { return gates_; }

 private:
  struct Inputs {  // what each projection reads, [B, N, …]
    at::Tensor query, key, value, output_gate;
    std::vector<at::Tensor> gates;
  };
  // What comes before the tokens: carried from earlier ones, or where each sequence of several begins.
  struct Before {
    Carried carried;
    at::Tensor cu_seqlens, places;  // undefined: one sequence
    const SharedTexts* texts = nullptr;
  };
  struct Heads {
    at::Tensor query, key, value;  // [B, H, N, D], [B, H, N, Dv]; query and key undefined where the law has its own
    at::Tensor skipped;            // [B, N, H Dv], what `skip` multiplies
    ops::MechanismParameters parameters;

    // As the operator takes them.
    std::optional<at::Tensor> given_query() const { return query.defined() ? std::optional(query) : std::nullopt; }
    std::optional<at::Tensor> given_key() const { return key.defined() ? std::optional(key) : std::nullopt; }
  };
  // Of the tokens of a rank, stretch by stretch.
  at::Tensor convolved(const at::Tensor& x, const Before& before);
  std::vector<at::Tensor> shifted(const at::Tensor& x, const Before& before);
  Inputs read(const at::Tensor& x, const Before& before, Carried& after);
  Heads project(const Inputs& inputs, const Before& before, Carried& after);
  void apply_features(at::Tensor& query, at::Tensor& key) const;
  ops::RecurrentOptions operator_options(const Heads& heads) const;
  // → [B, H, N, Dv], and the state of the law.
  at::Tensor walk(const Heads& heads, const Before& before, std::vector<at::Tensor>& after) const;
  std::vector<Heads> sequences_of(const Heads& heads, const std::optional<at::Tensor>& cu_seqlens) const;
  at::Tensor weights(const Heads& heads) const;         // → [B, H, N, N]
  at::Tensor weights_or_nan(const Heads& heads) const;  // alike, NaN where a gate has diverged
  at::Tensor observed(const Heads& heads, const at::Tensor& output, const ForwardContext& context) const;
  // by_token [B, N, heads, width]
  at::Tensor combine(at::Tensor by_token, const Heads& heads, const Inputs& inputs, const ForwardContext& context);

  RecurrentLayerOptions options_;
  const RecurrentLaw& law_;
  RecurrentRecipe recipe_;
  std::int64_t head_dim_, value_dim_;
  Linear inner_{nullptr}, query_{nullptr}, key_{nullptr}, value_{nullptr}, output_gate_{nullptr}, output_{nullptr};
  CausalConvolution convolution_{nullptr};
  TokenShift shift_{nullptr};
  Norm head_norm_{nullptr};
  std::vector<RecurrentGate> gates_;  // as gates_of lists them
  std::vector<std::string> gate_names_;
  at::Tensor skip_;      // [H Dv]
  at::Tensor features_;  // [H, D, D], the directions of random features
};
TORCH_MODULE(RecurrentLayer);

}  // namespace cogwheel::nn
