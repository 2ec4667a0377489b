#include "cogwheel/ops/pairwise/engines/triton/kernels_of_call.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <string>

#include "cogwheel/ops/pairwise/elementwise/dropout_factors.h"
#include "cogwheel/ops/pairwise/pairwise_call.h"

namespace cogwheel::ops {
namespace {

// Of decoding: programs that occupy a large device, and blocks of keys that are worth one.
constexpr std::int64_t many_programs = 264, least_blocks_of_part = 4;
constexpr std::int64_t most_rows_of_decoding = 64, most_rows_interpreted = 16;

constexpr std::int64_t widest_window = std::int64_t{1} << 62;  // positions are added to it

// Whether the host has a seed, so that nothing is copied.
bool is_known(const at::Tensor& seed) { return seed.is_cpu() && seed.numel() == 1; }

}  // namespace

KernelsOfCall::KernelsOfCall(const PairwiseCall& call, const at::Tensor& outputs)
    : call_(call),
      batch_(call.query.size(0)),
      heads_(call.query.size(1)),
      queries_(call.query.size(2)),
      keys_(call.key.size(2)),
      head_dim_(call.query.size(3)),
      value_dim_(are_identity(call.value) ? keys_ : call.value.size(3)),
      padded_value_dim_(padded_width(are_identity(call.value) ? head_dim_ : value_dim_)),
      launcher_(launcher_of(call.query)),
      target_(launcher_.target()),
      wide_numbers_(call.query.scalar_type() == at::kFloat || outputs.scalar_type() == at::kFloat),
      theta_(call.parameters.to(at::kFloat)) {
  const PairwiseOptions& options = call.options;
  if (options.ranges) ranges_ = there(*options.ranges);
  if (options.key_lengths) lengths_ = there(*options.key_lengths);
  if (options.first_positions) first_positions_ = there(*options.first_positions);
  if (options.alibi) slopes_ = there(options.alibi->to(at::kFloat));
  if (options.seed && !is_known(*options.seed)) seed_ = there(*options.seed);
  if (!options.bias && !options.energy_bias) return;
  counts_ = at::empty({batch_, heads_ / options.sub_heads, queries_}, call.query.options().dtype(at::kInt));
  Launch launch = of_rows("count_keys", heads_ / options.sub_heads);
  launch.add("counts", counts_);
  add_modifiers(launch);
  then(std::move(launch));
}

Launch KernelsOfCall::of_rows(std::string_view kernel, std::int64_t heads) const {
  Launch launch = with_shape(kernel);
  launch.programs = blocks(queries_, sizes(kernel).rows) * batch_ * heads;
  return launch;
}

Launch KernelsOfCall::of_keys(std::string_view kernel, std::int64_t heads) const {
  Launch launch = with_shape(kernel);
  launch.programs = blocks(keys_, sizes(kernel).keys) * batch_ * heads;
  return launch;
}

bool KernelsOfCall::is_decoding() const {
  return !are_identity(call_.value) && !call_.options.score_weight &&
         rows_of_keys() <= (is_interpreted() ? most_rows_interpreted : most_rows_of_decoding) && keys_ > keys_of_part();
}

// A multiple of a block, by the shape alone, on which the order of sums depends.
std::int64_t KernelsOfCall::keys_of_part() const {
  const std::int64_t block = sizes("decode").keys, parts_of_head = blocks(many_programs, batch_ * heads_of_keys());
  const std::int64_t least = is_interpreted() ? 1 : least_blocks_of_part;
  return block * std::max(least, blocks(blocks(keys_, block), parts_of_head));
}

std::int64_t KernelsOfCall::parts() const { return blocks(keys_, keys_of_part()); }

Launch KernelsOfCall::decode() const {
  Launch launch = with_shape("decode", padded_width(rows_of_keys()));
  launch.add("keys_of_program", keys_of_part());
  launch.programs = parts() * batch_ * heads_of_keys();
  return launch;
}

Launch KernelsOfCall::merge() const {
  Launch launch = with_shape("merge");
  launch.add("theta", theta_);
  launch.add("parts", parts());
  launch.programs = batch_ * heads_ * queries_;
  return launch;
}

void KernelsOfCall::add_scores(Launch& launch) const {
  launch.add_heads("query", call_.query);
  launch.add_heads("key", call_.key);
  launch.add("theta", theta_);
  launch.add("score.scale", call_.options.scale);
  if (call_.options.score_weight) launch.add("score.weight", call_.options.score_weight->contiguous());
  add_modifiers(launch);
}

void KernelsOfCall::then_twice(Launch launch) {
  launch.add("not_finite", at::empty({launch.programs}, call_.query.options().dtype(at::kInt)));
  for (const std::int64_t apart : {0, 1}) {
    launches_.push_back(launch);
    launches_.back().add_constant("APART", apart);
  }
}

// `rows_of_block` where not those of the kernel's sizes.
Launch KernelsOfCall::with_shape(std::string_view kernel, std::int64_t rows_of_block) const {
  const BlockSizes sizes = this->sizes(kernel);
  Launch launch{.mechanism = std::string(call_.mechanism),
                .kernel = std::string(kernel),
                .warps = sizes.warps,
                .stages = sizes.stages};
  add_visible(launch);
  launch.add("shape.heads", heads_);
  launch.add("shape.value_heads", call_.value.size(1));
  launch.add("shape.sub_heads", call_.options.sub_heads);
  launch.add("shape.queries", queries_);
  launch.add("shape.keys", keys_);
  launch.add_constant("block.head_dim", head_dim_);
  launch.add_constant("block.D", padded_width(head_dim_));
  launch.add_constant("block.DV", padded_value_dim_);
  // Of weights it is as long as there are keys, which a kernel is not compiled for.
  if (are_identity(call_.value))
    launch.add("block.value_dim", value_dim_);
  else
    launch.add_constant("block.value_dim", value_dim_);
  launch.add_constant("block.ROWS", rows_of_block > 0 ? rows_of_block : sizes.rows);
  launch.add_constant("block.KEYS", sizes.keys);
  return launch;
}

BlockSizes KernelsOfCall::sizes(std::string_view kernel) const {
  if (is_interpreted()) return interpreted_block_sizes(kernel, queries_, keys_);
  return block_sizes(kernel,
                     {.width = std::max(padded_width(head_dim_), padded_value_dim_),
                      .target = target_.name(),
                      .shared_bytes = target_.shared_bytes,
                      .reads_pairs = call_.options.bias || call_.options.energy_bias || call_.options.score_weight,
                      .wide_numbers = wide_numbers_});
}

void KernelsOfCall::add_visible(Launch& launch) const {
  const PairwiseOptions& options = call_.options;
  if (options.ranges) {
    launch.add("visible.ranges.data", ranges_);
    launch.add("visible.ranges.batch", ranges_.size(0) == 1 ? std::int64_t{0} : ranges_.stride(0));
    launch.add("visible.ranges.head", ranges_.size(1) == 1 ? std::int64_t{0} : ranges_.stride(1));
  } else if (options.mask != mask::full) {
    launch.add("visible.diagonal", options.mask == mask::causal ? keys_ - queries_ : 0);
    if (options.window > 0) launch.add("visible.window", std::min(options.window, widest_window));
  }
  if (lengths_.defined()) launch.add("visible.lengths", lengths_);
  if (first_positions_.defined()) launch.add("visible.first_positions", first_positions_);
  if (counts_.defined()) launch.add("visible.counts", counts_);
}

void KernelsOfCall::add_modifiers(Launch& launch) const {
  const PairwiseOptions& options = call_.options;
  const std::int64_t pairs[] = {batch_, heads_ / options.sub_heads, queries_, keys_};
  if (options.softcap > 0) launch.add("modifiers.softcap", options.softcap);
  if (options.bias) launch.add_pairs("modifiers.bias", *options.bias, pairs);
  if (options.energy_bias) launch.add_pairs("modifiers.energy_bias", *options.energy_bias, pairs);
  if (options.alibi) {
    launch.add("modifiers.slopes", slopes_);
    launch.add("modifiers.diagonal", keys_ - queries_);
  }
  if (options.centers) {
    launch.add("modifiers.centers", options.centers->contiguous());
    launch.add("modifiers.precision", 1 / (options.sigma * options.sigma));
  }
  if (options.dropout > 0) {
    if (seed_.defined())
      launch.add("modifiers.seed", seed_);
    else
      launch.add("modifiers.seed_number", *options.seed->const_data_ptr<std::int64_t>());
    if (options.seed->numel() == numbers_of_part) launch.add("modifiers.part", seed_);
    launch.add("modifiers.kept_below", static_cast<std::int64_t>(dropout::kept_below(options.dropout)));
    launch.add("modifiers.kept_factor", dropout::kept_factor<double>(options.dropout));
  }
}

}  // namespace cogwheel::ops
