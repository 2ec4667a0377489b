// The decoding state of a recurrent layer: its size does not grow with the tokens.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "cogwheel/nn/states/layer_state.h"

namespace cogwheel::nn {

// What a recurrent layer carries from token to token, each with the batch first. Undefined or empty: nothing yet.
struct Carried {
  std::vector<at::Tensor> law;  // of the law: S, and z where there is one
  at::Tensor inputs;            // [B, up to 3, channels], what the causal convolution still reads
  at::Tensor last;              // [B, 1, width], the last token's input, where a layer shifts tokens
  at::Tensor total;             // [B, H, 1, slots], the log of what all tokens have written, where slots hold means
};

class RecurrentState : public LayerState {
 public:
  explicit RecurrentState(std::int64_t batch);

  const Carried& carried() const { return present_.carried; }
  // After `tokens` more tokens of every entry.
  void advance(Carried carried, std::int64_t tokens);

  at::Tensor lengths() const override { return present_.lengths; }
  std::int64_t longest() const override;
  // A sum forgets no token, so that an entry may keep all tokens, none, or those before the last pass: the last is what
  // a model needs to undo a pass that failed.
  void check_crop(const at::Tensor& kept) const override;
  void crop(const at::Tensor& kept) override;
  void forget(std::int64_t first, std::int64_t count) override;
  std::unique_ptr<LayerState> fork(const at::Tensor& entries) const override;
  std::int64_t bytes() const override;

 private:
  struct Moment {
    at::Tensor lengths;  // [B] int64
    Carried carried;
  };
  Moment present_, before_;  // the latter before the last pass
};

}  // namespace cogwheel::nn
