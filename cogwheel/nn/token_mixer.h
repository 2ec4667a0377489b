// What a block asks of attention, or of another family that moves what one token knows to others.
#pragma once
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>

#include "cogwheel/nn/forward_context.h"
#include "cogwheel/nn/initialization.h"

namespace cogwheel {

class TokenMixer : public torch::nn::Module {
 public:
  // x [B, N, width] → [B, N, width]. With a state in the context, x are the tokens that follow those in it, and what
  // comes out are the rows of the pass over all of them. The context's dropout falls inside (on weights), not on what
  // comes out.
  virtual at::Tensor forward(const at::Tensor& x, const ForwardContext& context) = 0;

  // Whether a token's output can be had without those of the tokens after it.
  virtual bool can_decode() const = 0;
  // Empty, for up to `capacity` tokens of `batch` entries. Throws UsageError for a mixer that cannot decode.
  virtual std::unique_ptr<LayerState> make_state(std::int64_t batch, std::int64_t capacity) const = 0;

  // `name` is the module's own, dots included. The projection that writes into the residual stream takes the last.
  virtual void initialize(const WeightInitializer& initializer, const std::string& name, double standard_deviation,
                          double residual_standard_deviation) = 0;
};

}  // namespace cogwheel
