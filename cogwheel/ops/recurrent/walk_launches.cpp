#include "cogwheel/ops/recurrent/walk_launches.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <string>
#include <utility>

#include "cogwheel/ops/launch/device_launch.h"
#include "cogwheel/ops/recurrent/recurrent_checks.h"
#include "cogwheel/ops/support/engine.h"

namespace cogwheel::ops {
namespace {

// Short texts have several chunks and blocks where kernels are interpreted.
constexpr std::int64_t usual_chunk = 64, interpreted_chunk = 32;
constexpr std::int64_t tokens_one_by_one = 16;            // of channels: no fewer, for products
constexpr std::int64_t small_part = 32, large_part = 64;  // of the rows or columns of a state
constexpr int hopper = 90, blackwell = 100;

std::int64_t longest(const at::Tensor& cu_seqlens) {
  const std::int64_t* const ends = cu_seqlens.const_data_ptr<std::int64_t>();
  std::int64_t most = 0;
  for (std::int64_t i = 0; i + 1 < cu_seqlens.numel(); ++i) most = std::max(most, ends[i + 1] - ends[i]);
  return most;
}

}  // namespace

bool walks_are_launched(const at::Tensor& value) {
  if (value.scalar_type() != at::kFloat || attention_is_composed()) return false;
  if (value.is_cpu()) return interprets_kernels() || cpu_tensors_are_launched();
  return value.is_cuda() && device_lacks(value.device().index()).empty();
}

WalkLaunches::WalkLaunches(const at::Tensor& value, const OptionalTensor& cu_seqlens, std::int64_t row_width,
                           std::int64_t column_width, std::int64_t chunk)
    : options_(value.options()),
      launcher_(launcher_of(value)),
      capability_(launcher_.target().capability),
      sequences_(cu_seqlens ? cu_seqlens->size(0) - 1 : value.size(0)),
      heads_(value.size(1)),
      tokens_(value.size(2)),
      row_width_(row_width),
      column_width_(column_width),
      chunk_(chunk > 0                             ? chunk
             : tokens_ <= tokens_one_by_one        ? tokens_one_by_one
             : launcher_.target().is_interpreter() ? interpreted_chunk
                                                   : usual_chunk) {
  if (cu_seqlens) {
    const at::Tensor ends = cu_seqlens->to(at::kCPU, at::kLong).contiguous();
    check_sequence_bounds(ends, tokens_);
    chunks_ = blocks(longest(ends), chunk_);
    places_ = tokens_ / chunk_ + 2 * sequences_;  // device_kernels/walks/tokens.py
    first_tokens_ = cu_seqlens->to(value.device(), at::kLong).contiguous();
  } else {
    chunks_ = blocks(tokens_, chunk_);
    places_ = sequences_ * (chunks_ + 1);
  }
}

at::Tensor WalkLaunches::states() const { return at::empty({places_, heads_, row_width_, column_width_}, options_); }

at::Tensor WalkLaunches::states_of_sequences() const {
  return at::empty({sequences_, heads_, row_width_, column_width_}, options_);
}

// Sizes are those for which compilers keep everything in registers, or nearly so (docs/results/devices.md).
WalkLaunches::Blocks WalkLaunches::blocks_of_tokens(bool transposed, bool of_channels) const {
  const std::int64_t rows = transposed ? column_width_ : row_width_, columns = transposed ? row_width_ : column_width_;
  const bool many_columns = of_channels || (capability_ >= hopper && capability_ < blackwell);
  return {.row_width = rows,
          .column_width = columns,
          .rows = std::min(padded_width(rows), small_part),
          .columns = std::min(padded_width(columns), many_columns ? large_part : small_part),
          .tokens = of_channels ? tokens_one_by_one : chunk_,
          .warps = of_channels ? 4 : 8};
}

WalkLaunches::Blocks WalkLaunches::blocks_of_pairs() const {
  Blocks made = blocks_of_tokens(false, false);
  made.columns = std::min(made.columns, small_part);
  return made;
}

WalkLaunches::Blocks WalkLaunches::parts_of_states(bool transposed, bool of_channels) const {
  Blocks made = blocks_of_tokens(transposed, false);
  const bool tall = capability_ >= hopper && !of_channels;
  made.rows = std::min(padded_width(made.row_width), tall ? large_part : small_part);
  made.columns = std::min(padded_width(made.column_width), tall ? small_part : large_part);
  return made;
}

WalkLaunches::Blocks WalkLaunches::columns_of_states(std::int64_t columns) const {
  return {.row_width = row_width_,
          .column_width = column_width_,
          .rows = padded_width(row_width_),
          .columns = std::min(padded_width(column_width_), columns),
          .tokens = 1};
}

std::int64_t WalkLaunches::programs_of_columns(const Blocks& of) const {
  return sequences_ * heads_ * blocks(of.column_width, of.columns);
}

Launch WalkLaunches::launch(std::string_view kernel, std::int64_t programs) const {
  Launch launch{.mechanism = "", .kernel = std::string(kernel), .programs = programs};
  launch.add("span.heads", heads_);
  launch.add("span.tokens", tokens_);
  launch.add("span.chunks", chunks_);
  if (first_tokens_.defined()) launch.add("span.first_tokens", first_tokens_);
  return launch;
}

Launch WalkLaunches::launch(std::string_view kernel, const Blocks& blocks, std::int64_t programs) const {
  Launch launch = this->launch(kernel, programs);
  launch.warps = blocks.warps;
  launch.add_constant("tile.row_width", blocks.row_width);
  launch.add_constant("tile.column_width", blocks.column_width);
  launch.add_constant("tile.ROWS", blocks.rows);
  launch.add_constant("tile.COLUMNS", blocks.columns);
  launch.add_constant("tile.CHUNK", chunk_);
  launch.add_constant("tile.TOKENS", blocks.tokens);
  return launch;
}

void WalkLaunches::add_states(Launch& launch, const char* name, const at::Tensor& states, bool transposed) {
  const std::string field = name;
  launch.add(field + ".data", states);
  launch.add(field + ".place", states.stride(0));
  launch.add(field + ".head", states.stride(1));
  launch.add(field + ".row", states.stride(transposed ? 3 : 2));
  launch.add(field + ".column", states.stride(transposed ? 2 : 3));
}

void WalkLaunches::add_gates(Launch& launch, const WalkGates& gates) {
  if (gates.token) launch.add_heads("gates.token", *gates.token);
  if (gates.row) launch.add_heads("gates.row", *gates.row);
  if (gates.column) launch.add_heads("gates.column", *gates.column);
}

at::Tensor WalkLaunches::states_of_programs(const Blocks& of) const {
  return at::empty({programs_of_columns(of), chunk_, of.rows, of.columns}, options_);
}

at::Tensor WalkLaunches::parts(const Blocks& of, const at::Tensor& like) const {
  std::vector<std::int64_t> sizes = like.sizes().vec();
  sizes.insert(sizes.begin(), blocks(of.column_width, of.columns));
  return at::empty(sizes, options_);
}

void WalkLaunches::add_parts(Launch& launch, const char* name, const at::Tensor& parts) {
  const std::string field = name;
  launch.add(field + ".data", parts);
  launch.add(field + ".part", parts.stride(0));
  launch.add(field + ".batch", parts.stride(1));
  launch.add(field + ".head", parts.stride(2));
  launch.add(field + ".row", parts.stride(3));
}

void WalkLaunches::then(Launch launch) {
  if (launch.programs > 0) launches_.push_back(std::move(launch));
}

}  // namespace cogwheel::ops
