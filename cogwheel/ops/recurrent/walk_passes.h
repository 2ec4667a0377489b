// What all walks over tokens by chunks are made of: the states that chunks begin with, what tokens read of them, and
// the derivatives of decays (python/cogwheel/device_kernels/walks/token_*.py).
#pragma once
#include "cogwheel/ops/recurrent/walk_launches.h"

namespace cogwheel::ops {

class WalkPasses {
 public:
  // `strict`: a token reads what those before it left. `from_nothing`: sequences begin without a state.
  WalkPasses(WalkGates of_walk, WalkLaunches to_launch, bool strict, bool from_nothing);

  void then_states(const at::Tensor& rows, const at::Tensor& columns, const OptionalTensor& initial,
                   const at::Tensor& states, const at::Tensor& last, bool reversed);

  struct Order {
    bool transposed = false;  // rows are as wide as values
    bool reversed = false;
    bool of_others = false;  // without what the token itself wrote
  };
  // Of a part of the columns where `output` has but these; without `states` of each chunk's own tokens alone.
  void then_outputs(const at::Tensor& reading, const at::Tensor& rows, const at::Tensor& columns,
                    const at::Tensor& output, const OptionalTensor& states, const Order& order);

  // Of what is read and what is written, each with its gradient, of the rows of the state or, transposed, the columns.
  void then_gates(const at::Tensor& read, const at::Tensor& of_read, const at::Tensor& written,
                  const at::Tensor& of_written, const at::Tensor& states, const at::Tensor& of_states,
                  const at::Tensor& of_gate, bool transposed);

  WalkGates gates;
  WalkLaunches launches;

 private:
  bool strict_, from_nothing_;
};

}  // namespace cogwheel::ops
