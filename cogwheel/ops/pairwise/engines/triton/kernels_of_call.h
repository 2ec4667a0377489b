// The launches of one call of attention: what every kernel takes of it, how many programs there are, in which order.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "cogwheel/ops/launch/launch.h"
#include "cogwheel/ops/pairwise/engines/triton/block_sizes.h"
#include "cogwheel/ops/pairwise/pairwise_engine.h"

namespace cogwheel::ops {

class KernelsOfCall {
 public:
  // `outputs` are those of the call, or their gradients.
  KernelsOfCall(const PairwiseCall& call, const at::Tensor& outputs);

  const at::Tensor& theta() const { return theta_; }

  // A program for each block of rows, of every query head or of so many; with what is visible, the shape and the block.
  Launch of_rows(std::string_view kernel) const { return of_rows(kernel, heads_); }
  Launch of_rows(std::string_view kernel, std::int64_t heads) const;
  // A program for each block of keys.
  Launch of_keys(std::string_view kernel, std::int64_t heads) const;

  // Of few rows and many keys: a program for each part of the keys of a head, then one for each row.
  bool is_decoding() const;
  std::int64_t parts() const;
  Launch decode() const;
  Launch merge() const;

  // What makes scores and weights.
  void add_scores(Launch& launch) const;

  void then(Launch launch) { launches_.push_back(std::move(launch)); }
  // And once more for those programs that met what is not finite (device_kernels/forward.py).
  void then_twice(Launch launch);
  void run() const { launcher_.run(launches_); }

 private:
  Launch with_shape(std::string_view kernel, std::int64_t rows_of_block = 0) const;
  void add_visible(Launch& launch) const;
  void add_modifiers(Launch& launch) const;
  BlockSizes sizes(std::string_view kernel) const;
  bool is_interpreted() const { return target_.is_interpreter(); }
  std::int64_t heads_of_keys() const { return call_.value.size(1) * call_.options.sub_heads; }
  std::int64_t rows_of_keys() const { return heads_ / heads_of_keys() * queries_; }
  std::int64_t keys_of_part() const;
  // Numbers of a caller that may keep them on the host, as a cache does its lengths.
  at::Tensor there(const at::Tensor& numbers) const { return numbers.to(call_.query.device()).contiguous(); }

  const PairwiseCall& call_;
  std::int64_t batch_, heads_, queries_, keys_, head_dim_, value_dim_, padded_value_dim_;
  const Launcher& launcher_;
  DeviceTarget target_;
  bool wide_numbers_;
  at::Tensor theta_, ranges_, lengths_, first_positions_, slopes_, seed_, counts_;
  std::vector<Launch> launches_;
};

}  // namespace cogwheel::ops
