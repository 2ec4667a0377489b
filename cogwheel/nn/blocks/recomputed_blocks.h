// Layers whose activations are made again in the backward pass instead of kept: Chen et al., "Training Deep Nets with
// Sublinear Memory Cost" (2016). A step takes a third longer and keeps of such a layer no more than its input.
#pragma once
#include <cstdint>
#include <functional>

#include "cogwheel/nn/forward_context.h"

namespace cogwheel::nn {

struct ResidualStream;

// While such an object exists, every `every`-th layer of a pass on its thread is such a layer; 0: none is. Passes with
// hooks or a state, or without gradients, are as without it.
class RecomputedBlocks {
 public:
  explicit RecomputedBlocks(std::int64_t every);
  ~RecomputedBlocks();
  RecomputedBlocks(const RecomputedBlocks&) = delete;
  RecomputedBlocks& operator=(const RecomputedBlocks&) = delete;

  // Whether the layer that a pass has come to is one.
  static bool include(const ForwardContext& context);

 private:
  std::int64_t before_;
};

using BlockPass = std::function<ResidualStream(const ResidualStream&, const ForwardContext&)>;

// What `pass` makes of the stream, computed once more, to the same bits, when its gradients are asked for: those of the
// stream, of the context's memory and of the parameters that `pass` reads.
ResidualStream recomputed(const ResidualStream& stream, const ForwardContext& context, const BlockPass& pass);

}  // namespace cogwheel::nn
