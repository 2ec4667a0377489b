// The launches of walks over tokens (python/cogwheel/device_kernels/walks): what each takes of a walk, how many
// programs there are, and whether a device runs them.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "cogwheel/ops/launch/launch.h"
#include "cogwheel/ops/support/bundle.h"

namespace cogwheel::ops {

// Whether walks of such tensors, in float32, are launched: on a GPU that runs kernels, and on the CPU where
// COGWHEEL_ENGINE=interpreted asks for it.
bool walks_are_launched(const at::Tensor& value);

// What the host has computed, there.
template <class... Tensor>
std::tuple<Tensor...> on_device(const std::tuple<Tensor...>& results, at::Device device) {
  return std::apply([&](const auto&... each) { return std::tuple<Tensor...>{each.to(device)...}; }, results);
}

// Of keys, of walks that go token by token: a program holds all rows of a state.
inline constexpr std::int64_t widest_launched_walk = 256;

inline constexpr std::int64_t chunk_of_tokens = 16;  // as many states as are kept at once

// Logarithms of decays [B, H, N, 1], [B, H, N, D] and [B, H, N, Dv].
struct WalkGates {
  OptionalTensor token = {}, row = {}, column = {};

  WalkGates of_transposed() const { return {token, column, row}; }
  bool of_channels() const { return row || column; }
};

class WalkLaunches {
 public:
  // Of D × Dv numbers in a state. `cu_seqlens`: [sequences + 1] on the host, of a batch of one. `chunk`: of so many
  // tokens (chunk_of_tokens where each is taken by itself); 0: as is best for products.
  WalkLaunches(const at::Tensor& value, const OptionalTensor& cu_seqlens, std::int64_t row_width,
               std::int64_t column_width, std::int64_t chunk = 0);

  std::int64_t sequences() const { return sequences_; }
  std::int64_t chunks() const { return chunks_; }  // of the longest sequence

  // Memory for the states between chunks [places, H, D, Dv], and for those of sequences [sequences, H, D, Dv].
  at::Tensor states() const;
  at::Tensor states_of_sequences() const;

  // What one of these takes: the tokens of all sequences, by chunks of so many.
  struct Blocks {
    std::int64_t row_width, column_width, rows, columns, tokens;  // of a state, and of what a program holds of it
    std::int64_t warps = 4;
  };
  Blocks blocks_of_tokens(bool transposed, bool of_channels) const;
  Blocks blocks_of_pairs() const;  // of which both sides are as long as a chunk
  Blocks parts_of_states(bool transposed, bool of_channels) const;
  Blocks columns_of_states(std::int64_t columns) const;  // of all rows and that many columns, or fewer

  Launch launch(std::string_view kernel, std::int64_t programs) const;  // with the tokens alone
  Launch launch(std::string_view kernel, const Blocks& blocks, std::int64_t programs) const;
  std::int64_t programs_of_chunks() const { return sequences_ * heads_ * chunks_; }
  std::int64_t programs_of_columns(const Blocks& blocks) const;
  std::int64_t heads() const { return heads_; }
  std::int64_t chunk() const { return chunk_; }

  static void add_states(Launch& launch, const char* name, const at::Tensor& states, bool transposed = false);
  static void add_gates(Launch& launch, const WalkGates& gates);

  // Walks that go token by token, a program for blocks of columns: memory for the states of a chunk for each, and for
  // gradients [blocks, B, H, N, width] that are to be added.
  at::Tensor states_of_programs(const Blocks& blocks) const;
  at::Tensor parts(const Blocks& blocks, const at::Tensor& like) const;
  static void add_parts(Launch& launch, const char* name, const at::Tensor& parts);
  void then(Launch launch);
  // What was added since the last time.
  void run() { launcher_.run(std::exchange(launches_, {})); }

 private:
  at::TensorOptions options_;
  const Launcher& launcher_;
  int capability_;  // 0 where the target is none of NVIDIA's
  std::int64_t sequences_, heads_, tokens_, row_width_, column_width_, chunk_, chunks_, places_;
  at::Tensor first_tokens_;
  std::vector<Launch> launches_;
};

}  // namespace cogwheel::ops
