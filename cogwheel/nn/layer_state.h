// What a model remembers of the tokens that it has seen, so that the next ones cost no more than themselves.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace cogwheel {

// Of one layer: keys and values of attention; of another family whatever it carries from token to token. Entries of the
// batch may differ in length. Nothing that is refused changes a state.
class LayerState {
 public:
  virtual ~LayerState() = default;

  // Tokens of each entry, [B] int64, and of the longest.
  virtual at::Tensor lengths() const = 0;
  virtual std::int64_t longest() const = 0;
  // Forgets the newest tokens: entry b keeps its first kept[b], [B] int64. Throws where it has fewer, or where the
  // family cannot go back.
  virtual void crop(const at::Tensor& kept) = 0;
  // A state of its own with a copy of the named entries, [B'] int64, in that order; an entry may be named several
  // times, as beams are.
  virtual std::unique_ptr<LayerState> fork(const at::Tensor& entries) const = 0;
  // Of what the tokens so far take, not of what there is room for.
  virtual std::int64_t bytes() const = 0;
};

// [B, tokens] int64: where the next tokens of each entry stand. Undefined where all entries have as many: a pass then
// needs no table.
at::Tensor ragged_positions(const LayerState& state, std::int64_t tokens);

// Of every layer of a model, in their order: the same calls, for all of them.
class ModelState {
 public:
  explicit ModelState(std::vector<std::unique_ptr<LayerState>> layers) : layers_(std::move(layers)) {}

  std::size_t size() const { return layers_.size(); }
  LayerState& operator[](std::size_t layer) const { return *layers_[layer]; }

  at::Tensor lengths() const { return layers_.front()->lengths(); }
  std::int64_t longest() const { return layers_.front()->longest(); }
  void crop(const at::Tensor& kept);
  ModelState fork(const at::Tensor& entries) const;
  std::int64_t bytes() const;

 private:
  std::vector<std::unique_ptr<LayerState>> layers_;
};

}  // namespace cogwheel
