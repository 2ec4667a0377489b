// The decoding state of a model: what it keeps of the tokens so far, so that a new token need not compute them again.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace cogwheel::nn {

// The state of one layer: keys and values of attention; in another family whatever it carries from token to token.
// Entries of the batch may differ in length. A call that throws leaves the state unchanged.
class LayerState {
 public:
  virtual ~LayerState() = default;

  // The number of tokens of each entry, [B] int64, and of the longest.
  virtual at::Tensor lengths() const = 0;
  virtual std::int64_t longest() const = 0;
  // Drops the newest tokens: entry b keeps its first kept[b], [B] int64. Throws where it has fewer, or where the family
  // cannot drop tokens.
  virtual void crop(const at::Tensor& kept) = 0;
  // Throws where crop would because the family cannot drop these tokens.
  virtual void check_crop(const at::Tensor& /*kept*/) const {}
  // As if the text had not had its tokens first … first + count − 1, in every entry: those after them move up to their
  // places, so that there is room for more. Keys are turned to their new positions where positions turn them. What the
  // tokens left in later ones stays, as it does in a sum that forgets no token, whose length alone changes. Throws
  // where an entry has fewer.
  virtual void forget(std::int64_t first, std::int64_t count) = 0;
  // An independent state with copies of the named entries, [B'] int64, in that order; an entry may be named several
  // times, as in beam search.
  virtual std::unique_ptr<LayerState> fork(const at::Tensor& entries) const = 0;
  // The memory of the tokens so far, not of the capacity.
  virtual std::int64_t bytes() const = 0;
};

// [B, tokens] int64: where the next tokens of each entry stand. Undefined where all entries have as many: a pass then
// needs no table.
at::Tensor ragged_positions(const LayerState& state, std::int64_t tokens);

// The states of all layers of a model, in order: each call is passed on to every layer.
class ModelState {
 public:
  explicit ModelState(std::vector<std::unique_ptr<LayerState>> layers) : layers_(std::move(layers)) {}

  std::size_t size() const { return layers_.size(); }
  LayerState& operator[](std::size_t layer) const { return *layers_[layer]; }

  at::Tensor lengths() const { return layers_.front()->lengths(); }
  std::int64_t longest() const { return layers_.front()->longest(); }
  void crop(const at::Tensor& kept);
  void forget(std::int64_t first, std::int64_t count);
  ModelState fork(const at::Tensor& entries) const;
  std::int64_t bytes() const;

 private:
  std::vector<std::unique_ptr<LayerState>> layers_;
};

}  // namespace cogwheel::nn
