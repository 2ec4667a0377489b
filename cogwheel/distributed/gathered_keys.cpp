#include "cogwheel/distributed/gathered_keys.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/utils.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <utility>

#include "cogwheel/distributed/joint_exchange.h"
#include "cogwheel/ops/pairwise/attention_options.h"
#include "cogwheel/ops/pairwise/dense_pairwise.h"
#include "cogwheel/ops/pairwise/elementwise/dropout_factors.h"
#include "cogwheel/ops/pairwise/pairwise_call.h"
#include "cogwheel/ops/pairwise/ranges.h"
#include "cogwheel/ops/support/checks.h"
#include "cogwheel/ops/support/recorded_node.h"

namespace cogwheel::distributed {
namespace {

using ops::OptionalTensor;
using ops::PairwiseOptions;
using ops::variable_list;
namespace place = ops::pairwise_input;

const std::string keys_and_values = "keys and values of attention";
const std::string their_gradients = "gradients of keys and values of attention";

// A part of a dimension; all of one that is broadcast.
at::Tensor narrowed(const at::Tensor& tensor, std::int64_t dim, std::int64_t begin, std::int64_t size) {
  return tensor.size(dim) == 1 ? tensor : tensor.narrow(dim, begin, size);
}

at::Tensor with_four_dimensions(at::Tensor tensor) {
  while (tensor.dim() < 4) tensor = tensor.unsqueeze(0);
  return tensor;
}

// What the queries of a stretch see, as the options of a call that has these queries and all keys.
ops::AttentionOptions sight_of(const Stretch& stretch, const ops::AttentionOptions& given, const at::Tensor& query,
                               std::int64_t queries, std::int64_t keys) {
  ops::AttentionOptions options;
  options.causal = given.causal, options.window = given.window, options.key_lengths = given.key_lengths;
  options.local_radius = given.local_radius;
  const auto own = [&](const at::Tensor& tensor, std::int64_t dim) {
    return tensor.narrow(dim, stretch.place, stretch.size());
  };
  if (given.ranges) options.ranges = own(*given.ranges, 2);
  if (given.local_centers) options.local_centers = own(*given.local_centers, 2);
  if (given.cu_seqlens) {
    ops::check_cu_seqlens(given, query, query.size(2) * keys / queries);
    if (given.window && (*given.window < 1 || !given.causal))
      ops::refuse("window", "1 or more, and causal=True beside it", std::to_string(*given.window));
    const std::int64_t window = given.window.value_or(0);
    options.ranges =
        ops::packed_ranges(*given.cu_seqlens, queries, given.causal, window).narrow(2, stretch.begin, stretch.size());
    options.causal = false, options.window.reset();
  }
  const bool around_position = given.local_radius && !given.local_centers;
  if (!options.causal && !given.alibi && !around_position && !given.first_positions) return options;
  options.alibi = given.alibi;  // which lets positions be given
  if (given.first_positions) {
    options.first_positions = *given.first_positions + at::Scalar(stretch.begin);
    return options;
  }
  if (around_position && given.alibi && !given.causal && queries != keys)
    ops::refuse("local_radius", "as many queries as keys beside alibi, where neither is causal and tokens are cut",
                std::to_string(queries) + " and " + std::to_string(keys));
  const std::int64_t diagonal = around_position && !given.causal ? 0 : keys - queries;
  options.first_positions = at::full({query.size(0)}, stretch.begin + diagonal, query.options().dtype(at::kLong));
  return options;
}

// Heads that are computed at once, all of one batch entry or some of each.
struct Piece {
  std::int64_t batch, batches, value_head, value_heads;
};

// A call on the queries of this rank.
struct Call {
  CutRanks ranks;
  std::vector<GatheredKeys::Rows> rows;
  std::string map;
  PairwiseOptions options;  // with no tensors: these are inputs
  ops::WantedOutputs wanted;

  std::int64_t ranks_of() const { return ranks.group.count(); }
};

// The heads of a piece.
struct PieceHeads {
  Piece piece;
  std::int64_t sub_heads, group;  // query heads a value head, without sub-heads

  at::Tensor batch_of(const at::Tensor& tensor) const { return narrowed(tensor, 0, piece.batch, piece.batches); }
  std::int64_t first_output() const { return piece.value_head * group; }
  std::int64_t outputs() const { return piece.value_heads * group; }
  at::Tensor outputs_of(const at::Tensor& tensor, std::int64_t dim) const {
    return narrowed(tensor, dim, first_output(), outputs());
  }
  at::Tensor queries_of(const at::Tensor& tensor, std::int64_t dim) const {
    return tensor.narrow(dim, first_output() * sub_heads, outputs() * sub_heads);
  }
  at::Tensor keys_of(const at::Tensor& key) const {
    return batch_of(key).narrow(1, piece.value_head * sub_heads, piece.value_heads * sub_heads);
  }
  at::Tensor values_of(const at::Tensor& value) const {
    return batch_of(value).narrow(1, piece.value_head, piece.value_heads);
  }
};

// Bytes of keys and values that are not cut in two: every exchange waits for all ranks. Tests cut small texts as large
// ones are.
std::int64_t small_piece() {
  constexpr std::int64_t usual = 1 << 20;
  static const char* const given = std::getenv("COGWHEEL_SMALL_PIECE");
  static const std::int64_t bytes = given == nullptr ? usual : std::max(std::atoll(given), 1LL);
  return bytes;
}

// Whole texts of some heads.
std::vector<PieceHeads> pieces_of(const Call& call, const at::Tensor& query, const at::Tensor& key,
                                  const at::Tensor& value, bool backward) {
  const std::int64_t batch = query.size(0), heads = value.size(1), sub_heads = call.options.sub_heads;
  const auto bytes = call.ranks_of() * static_cast<std::int64_t>(key.nbytes() + value.nbytes());
  const GatheredPieces each = gathered_pieces(bytes, call.ranks_of(), heads, batch, backward);
  std::vector<PieceHeads> pieces;
  for (std::int64_t first = 0; first < batch; first += each.entries)
    for (std::int64_t head = 0; head < heads; head += each.heads)
      pieces.push_back({{first, std::min(each.entries, batch - first), head, std::min(each.heads, heads - head)},
                        sub_heads,
                        query.size(1) / sub_heads / heads});
  return pieces;
}

// Of an option's tensor in four dimensions, or in those that it always has: what belongs to a piece and a stretch.
struct OptionPart {
  std::size_t input;  // place::…

  at::Tensor of(const at::Tensor& whole, const PieceHeads& heads, const Stretch& stretch) const {
    if (input == place::score_weight) return heads.queries_of(whole, 0);
    const at::Tensor part = heads.outputs_of(heads.batch_of(whole), 1);  // bias, energy_bias, centers
    return narrowed(part, 2, stretch.place, stretch.size());
  }
};

// The options of a piece of some rows.
PairwiseOptions options_of(const Call& call, const variable_list& inputs, const GatheredKeys::Rows& rows,
                           const PieceHeads& heads, std::int64_t all_heads) {
  PairwiseOptions options = rows.sight;
  options.scale = call.options.scale, options.softcap = call.options.softcap;
  options.sub_heads = call.options.sub_heads, options.dropout = call.options.dropout;
  options.sigma = call.options.sigma;
  for (const auto of_batch : {&PairwiseOptions::key_lengths, &PairwiseOptions::first_positions})
    if (options.*of_batch) options.*of_batch = heads.batch_of(*(options.*of_batch));
  if (options.ranges) options.ranges = heads.outputs_of(heads.batch_of(*options.ranges), 1);
  options.alibi.reset();
  if (inputs[place::alibi].defined()) options.alibi = heads.outputs_of(inputs[place::alibi], 0);
  for (std::size_t i = place::options; i < place::differentiable; ++i) {
    OptionalTensor& option = options.*place::option_tensors[i - place::options];
    option.reset();
    if (inputs[i].defined()) option = OptionPart{i}.of(inputs[i], heads, rows.stretch);
  }
  if (call.options.dropout > 0)
    options.seed = ops::DropoutSeed(inputs[place::seed])
                       .of_part(rows.stretch.begin, heads.piece.batch, heads.first_output(), all_heads);
  return options;
}

// Keys and values of all tokens for one piece after the other; those of the next piece travel while one is used.
class Gathering {
 public:
  Gathering(const Call& call, const at::Tensor& key, const at::Tensor& value, const std::vector<PieceHeads>& pieces)
      : call_(call), key_(key), value_(value), pieces_(pieces) {
    begin(0);
  }

  // Once for each piece, in their order.
  std::pair<at::Tensor, at::Tensor> next() {
    JointExchange travelling = std::move(travelling_);
    begin(++piece_);
    const auto whole = [&] { return call_.ranks.cut.whole(travelling.next(keys_and_values), 2); };
    at::Tensor all_keys = whole();
    return {std::move(all_keys), whole()};
  }

 private:
  void begin(std::size_t piece) {
    if (piece >= pieces_.size()) return;
    travelling_ = JointExchange::gather(
        call_.ranks.group, {pieces_[piece].keys_of(key_), pieces_[piece].values_of(value_)}, keys_and_values);
  }

  const Call& call_;
  const at::Tensor &key_, &value_;
  const std::vector<PieceHeads>& pieces_;
  std::size_t piece_ = 0;
  JointExchange travelling_;  // keys, then values
};

// The part of a result that belongs to a piece of some rows. `batch` is the place of the batch's dimension, before
// those of heads and queries.
at::Tensor rows_of(const at::Tensor& result, const PieceHeads& heads, const Stretch& stretch, std::int64_t batch = 0,
                   bool of_outputs = false) {
  const at::Tensor part = result.narrow(batch, heads.piece.batch, heads.piece.batches);
  const at::Tensor of_heads =
      of_outputs ? part.narrow(batch + 1, heads.first_output(), heads.outputs()) : heads.queries_of(part, batch + 1);
  return of_heads.narrow(batch + 2, stretch.place, stretch.size());
}

// visit(piece's heads, all its keys, all its values, rows, their options), piece by piece; after(piece's heads), when
// its keys and values are let go.
template <class Visit, class AfterPiece>
void for_each_part(const Call& call, const variable_list& inputs, bool is_backward, const Visit& visit,
                   const AfterPiece& after) {
  const at::Tensor &query = inputs[place::query], &value = inputs[place::value];
  const std::vector<PieceHeads> pieces = pieces_of(call, query, inputs[place::key], value, is_backward);
  if (pieces.empty()) return;
  Gathering gathering(call, inputs[place::key], value, pieces);
  for (const PieceHeads& heads : pieces) {
    {
      const auto [all_keys, all_values] = gathering.next();
      for (const GatheredKeys::Rows& rows : call.rows)
        visit(heads, all_keys, all_values, rows,
              options_of(call, inputs, rows, heads, query.size(1) / call.options.sub_heads));
    }
    after(heads);
  }
}

ops::PairwiseOutputs forward(const Call& call, const variable_list& inputs) {
  const at::Tensor &query = inputs[place::query], &value = inputs[place::value];
  const at::Tensor output = ops::empty_output(query, inputs[place::key], value, call.wanted.wide),
                   shift = ops::empty_totals(query), mass = ops::empty_totals(query),
                   statistics = ops::empty_statistics(query, query.size(1), call.wanted.statistics);
  for_each_part(
      call, inputs, /*is_backward=*/false,
      [&](const PieceHeads& heads, const at::Tensor& all_keys, const at::Tensor& all_values,
          const GatheredKeys::Rows& rows, const PairwiseOptions& options) {
        const auto [o, m, g, s] =
            ops::pairwise(rows_of(query, heads, rows.stretch), all_keys, all_values,
                          heads.queries_of(inputs[place::parameters], 0), call.map, options, call.wanted);
        rows_of(output, heads, rows.stretch).copy_(o);
        rows_of(shift, heads, rows.stretch).copy_(m);
        rows_of(mass, heads, rows.stretch).copy_(g);
        if (call.wanted.statistics) rows_of(statistics, heads, rows.stretch, 1).copy_(s);
      },
      [](const PieceHeads&) {});
  return {output, shift, mass, statistics};
}

variable_list backward(const Call& call, const variable_list& inputs, const ops::PairwiseSaved& saved,
                       const at::Tensor& gradient, const ops::WantedGradients& wanted) {
  variable_list gradients(place::differentiable);
  for (const std::size_t i : {place::query, place::key, place::value, place::parameters})
    gradients[i] = at::zeros_like(inputs[i]);
  const at::TensorOptions computed = ops::computed_options(inputs[place::query]);
  for (std::size_t i = place::options; i < place::differentiable; ++i)
    if (wanted.*place::wanted[i - place::options]) gradients[i] = at::zeros(inputs[i].sizes(), computed);
  variable_list of_piece(2);  // of all keys and values of a piece, summed over the rows of this rank
  const auto part = [&](const at::Tensor& tensor, const PieceHeads& heads, const Stretch& stretch) {
    return rows_of(tensor, heads, stretch);
  };
  for_each_part(
      call, inputs, /*is_backward=*/true,
      [&](const PieceHeads& heads, const at::Tensor& all_keys, const at::Tensor& all_values,
          const GatheredKeys::Rows& rows, const PairwiseOptions& options) {
        const ops::PairwiseSaved of_rows{part(saved.output, heads, rows.stretch),
                                         part(saved.shift, heads, rows.stretch), part(saved.mass, heads, rows.stretch)};
        const auto found = ops::pairwise_backward(
            part(gradient, heads, rows.stretch), part(inputs[place::query], heads, rows.stretch), all_keys, all_values,
            heads.queries_of(inputs[place::parameters], 0), of_rows, call.map, wanted, options);
        const variable_list list = std::apply([](const auto&... each) { return variable_list{each...}; }, found);
        part(gradients[place::query], heads, rows.stretch).copy_(list[place::query]);
        for (const auto& [i, sum] : {std::pair(place::key, &of_piece[0]), {place::value, &of_piece[1]}}) {
          if (sum->defined())
            sum->add_(list[i]);
          else
            *sum = list[i];
        }
        heads.queries_of(gradients[place::parameters], 0).add_(list[place::parameters]);
        for (std::size_t i = place::options; i < place::differentiable; ++i)
          if (gradients[i].defined()) OptionPart{i}.of(gradients[i], heads, rows.stretch).add_(list[i]);
      },
      [&](const PieceHeads& heads) {
        variable_list parts;
        for (at::Tensor& sum : of_piece) parts.push_back(call.ranks.cut.parts(std::exchange(sum, {}), 2));
        JointExchange travelling = JointExchange::exchange(call.ranks.group, std::exchange(parts, {}), their_gradients);
        heads.keys_of(gradients[place::key]).copy_(sum_of_ranks(travelling.next(their_gradients)));
        heads.values_of(gradients[place::value]).copy_(sum_of_ranks(travelling.next(their_gradients)));
      });
  return gradients;
}

}  // namespace

GatheredPieces gathered_pieces(std::int64_t bytes, std::int64_t ranks, std::int64_t value_heads, std::int64_t batch,
                               bool backward) {
  // Forward holds a piece and the next; backward their gradients too, of two stretches, and what ranks exchange of
  // them.
  const std::int64_t wanted = std::clamp<std::int64_t>(bytes / small_piece(), 1, backward ? 2 * ranks : ranks);
  GatheredPieces pieces{.heads = std::max<std::int64_t>(value_heads / wanted, 1),
                        .entries = std::max<std::int64_t>(batch, 1)};
  if (value_heads < wanted) pieces.entries = std::max<std::int64_t>(batch * value_heads / wanted, 1);
  const auto times = [](std::int64_t all, std::int64_t part) { return (all + part - 1) / part; };
  pieces.count = times(value_heads, pieces.heads) * times(batch, pieces.entries);
  return pieces;
}

PairwiseOptions GatheredKeys::options(const Mechanism& mechanism, const at::Tensor& query, const at::Tensor& key,
                                      const ops::AttentionOptions& given, std::string_view causal_mask) {
  const std::int64_t ranks = ranks_.group.count(), queries = query.size(2) * ranks, keys = key.size(2) * ranks;
  ranks_.cut.places(0, key.size(2));  // that they divide
  // For its sizes.
  const at::Tensor all_keys = key.narrow(2, 0, 1).expand({key.size(0), key.size(1), keys, key.size(3)});
  rows_.clear();
  for (const Stretch& stretch : ranks_.cut.places(ranks_.group.rank(), query.size(2)))
    rows_.push_back({stretch, ops::pairwise_options(mechanism, query.narrow(2, stretch.place, stretch.size()), all_keys,
                                                    sight_of(stretch, given, query, queries, keys), causal_mask)});
  ops::AttentionOptions modifiers = given;
  modifiers.causal = false;
  modifiers.window.reset(), modifiers.key_lengths.reset(), modifiers.first_positions.reset();
  modifiers.cu_seqlens.reset(), modifiers.ranges.reset();
  PairwiseOptions options = ops::pairwise_options(mechanism, query, all_keys, modifiers, causal_mask);
  options.ranges.reset();
  return options;
}

PairwiseOptions GatheredKeys::seen(const PairwiseOptions& options) {
  PairwiseOptions all;
  all.sub_heads = options.sub_heads;
  return all;
}

ops::PairwiseOutputs GatheredKeys::pairwise(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                            const at::Tensor& parameters, std::string_view map,
                                            const PairwiseOptions& options, const ops::WantedOutputs& wanted) {
  variable_list inputs = ops::pairwise_inputs(query, key, value, parameters, options);
  for (const std::size_t i : {place::bias, place::energy_bias})
    if (inputs[i].defined()) inputs[i] = with_four_dimensions(inputs[i]);
  const auto call = std::make_shared<Call>(Call{ranks_, rows_, std::string(map), options, wanted});
  for (const auto tensor : place::option_tensors) call->options.*tensor = std::nullopt;
  ops::PairwiseOutputs made;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    made = forward(*call, inputs);
  }
  const auto& [output, shift, mass, statistics] = made;
  if (!ops::needs_record(inputs)) return made;
  ops::WantedGradients wanted_gradients;
  for (std::size_t i = place::options; i < place::differentiable; ++i)
    wanted_gradients.*place::wanted[i - place::options] = inputs[i].defined() && inputs[i].requires_grad();
  ops::record(
      "GatheredKeysBackward", inputs, {output}, {shift, mass},
      [call, wanted_gradients](const variable_list& in, const variable_list& out, const variable_list& gradients) {
        if (at::GradMode::is_enabled())
          ops::refuse("derivatives", "first ones where tokens are cut over ranks", "second ones");
        return backward(*call, in, {out[0], out[1], out[2]}, gradients[0], wanted_gradients);
      });
  return made;
}

at::Tensor GatheredKeys::mixture_statistics(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                            const at::Tensor& parameters, const ops::MixtureMembers& members,
                                            std::string_view map, const PairwiseOptions& options, bool argmax) {
  const variable_list inputs = [&] {
    variable_list list = ops::pairwise_inputs(query, key, value, parameters, options);
    for (const std::size_t i : {place::bias, place::energy_bias})
      if (list[i].defined()) list[i] = with_four_dimensions(list[i]);
    return list;
  }();
  Call call{ranks_, rows_, std::string(map), options, {}};
  for (const auto tensor : place::option_tensors) call.options.*tensor = std::nullopt;
  const std::int64_t outputs = query.size(1) / options.sub_heads;
  const at::Tensor statistics = ops::empty_statistics(query, outputs, true);
  OptionalTensor coefficient;
  if (members.coefficient) coefficient = members.coefficient->expand({query.size(0), outputs, query.size(2)});
  for_each_part(
      call, inputs, /*is_backward=*/false,
      [&](const PieceHeads& heads, const at::Tensor& all_keys, const at::Tensor& all_values, const Rows& rows,
          const PairwiseOptions& of_rows) {
        ops::MixtureMembers part{
            rows_of(members.shift, heads, rows.stretch), rows_of(members.mass, heads, rows.stretch), {}};
        if (coefficient) part.coefficient = rows_of(*coefficient, heads, rows.stretch, 0, true);
        rows_of(statistics, heads, rows.stretch, 1, true)
            .copy_(ops::mixture_statistics(rows_of(query, heads, rows.stretch), all_keys, all_values,
                                           heads.queries_of(parameters, 0), part, map, of_rows, argmax));
      },
      [](const PieceHeads&) {});
  return statistics;
}

}  // namespace cogwheel::distributed
